// SPDX-License-Identifier: Apache-2.0
//
// Staging of a blocking collective in segments: while the host MPI runs the collective on one segment, in
// page-locked memory, the segment after it is copied out of device memory and the one before it into device
// memory. The segments are short enough to stay in the caches of the processor, where the host MPI reads and
// writes them.
//
// The host MPI gets the same blocking function once for each segment, so all ranks of the communicator must
// take this path and cut the call alike. Everything that decides both is the same on all ranks, except the
// kind of memory, on which the ranks agree first (src/coll/memory_agreement.h).

#pragma once

#include <algorithm>
#include <optional>

#include "device/copy.h"
#include "device/pinned_buffer.h"
#include "mpi/coll/collective_call.h"
#include "mpi/coll/nodes/packed_buffer.h"

namespace fairlead::mpi {

class SegmentedStaging {
 public:
  // The bytes of the longer buffer of the call, of those that some rank passes; 0 if the call cannot be cut,
  // or if its arguments are wrong on this rank. Otherwise the same on all ranks.
  static uint64_t longest_side(const CollectiveCall& call, const CommPosition& position);

  // `longest` is the number of bytes of one buffer in a segment, if a block has enough of them.
  SegmentedStaging(const CollectiveCall& call, const CommPosition& position, uint64_t longest);

  // False if the memory cannot be allocated, or if buffers with gaps cannot be packed. The other ranks depend
  // on run() all the same, unless all ranks agree not to call it.
  bool ready();
  // Returns the first error.
  int run();
  // The host MPI has raised that error.
  bool raised() const { return raised_; }

 private:
  // The blocks of one buffer. In each segment, a part of every block is in flight.
  struct Side {
    uint64_t blocks = 0;  // 0: this rank passes nothing
    std::optional<PackedBuffer> buffer;
    bool is_read = false;
    char* address = nullptr;  // of the first block
    int device = -1;          // -1: host memory
    // Segments take turns.
    std::optional<device::PinnedBuffer> rooms[2];
    device::Copy copies[2];

    unsigned char* room(uint64_t segment) const { return blocks ? rooms[segment % 2]->data() : nullptr; }
  };

  void start(Side& side, uint64_t segment);
  void finish(Side& side, uint64_t segment);
  void note_copy(device::Error error);
  int call_host(const void* from, void* to, uint64_t bytes) const;
  uint64_t begin_of(uint64_t segment) const { return segment * segment_; }
  uint64_t bytes_in(uint64_t segment) const { return std::min(segment_, block_ - begin_of(segment)); }
  void note(int result) {
    if (error_ == MPI_SUCCESS) error_ = result;
  }

  const CollectiveCall call_;
  const CommPosition& position_;
  uint64_t block_;    // bytes of a block
  uint64_t element_;  // bytes that stay together: an element of a reduction, else 1
  uint64_t segment_;  // bytes of each block in one segment
  Side read_, written_;
  int error_ = MPI_SUCCESS;
  bool raised_ = false;
};

}  // namespace fairlead::mpi
