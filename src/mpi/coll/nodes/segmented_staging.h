// SPDX-License-Identifier: Apache-2.0
//
// Staging of a collective in segments: while the host MPI runs the collective on one segment, in page-locked
// memory, segments after it are copied out of device memory and those before it into device memory. The
// segments are short enough to stay in the caches of the processor, where the host MPI reads and writes them.
//
// Every segment holds a part of every block: blocks are cut into the same number of parts, so that the two
// ends of a block cut it alike, whatever the other blocks are. The host MPI gets one call for each segment,
// so all ranks of the communicator must take this path with the same number of segments. Everything that
// decides both is the same on all ranks, except the kind of memory and some lengths, on which the ranks agree
// first (src/coll/memory_agreement.h). Any kind of memory gives the right result.
//
// A blocking call gets blocking functions of the host MPI, by run(). A nonblocking one is a
// SegmentedOperation (segmented_operation.h), which starts the nonblocking functions.

#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "coll/slices.h"
#include "device/copies/copy.h"
#include "device/pinned_buffer.h"
#include "mpi/coll/collective_call.h"
#include "mpi/coll/nodes/packed_buffer.h"

namespace fairlead::mpi {

class SegmentedStaging {
 public:
  // The bytes of the longer buffer, of those that some rank passes. Nothing if the call cannot be cut, or if
  // its arguments are wrong on this rank; otherwise the same on all ranks.
  static std::optional<uint64_t> length_of(const CollectiveCall& call, const CommPosition& position);
  // Do the blocks of the call have one length?
  static bool is_even(const CollectiveCall& call, const CommPosition& position);
  // The number of segments for a longest buffer of this length, with `segment` bytes of it in each if blocks
  // are long enough.
  static uint64_t segments_of(const CollectiveCall& call, const CommPosition& position, uint64_t longest,
                              uint64_t segment);

  // The host MPI runs the segments on `comm`. `segment` as in segments_of().
  SegmentedStaging(const CollectiveCall& call, const CommPosition& position, MPI_Comm comm, uint64_t segment);

  // The host memory of one segment, and the copies to and from it.
  struct Half {
    device::PinnedBuffer memory;
    unsigned char* data = nullptr;  // that memory, or dummy memory
    std::deque<device::Copy> copies;
    std::vector<int> counts, offsets;  // in bytes, if the blocks are not even
  };
  struct SegmentMemory {
    Half read, written;
  };

  // Finds the memory of this rank and packs what has gaps. False if that fails. The other ranks depend on the
  // calls of the host MPI all the same, unless all ranks agree not to make them.
  bool ready();
  bool make(SegmentMemory& room) const;
  // For this rank without memory, which takes part with no data: the end is an error. False if there are not
  // even addresses.
  bool make_dummy(SegmentMemory& room);
  void cut(uint64_t segments) { segments_ = segments; }

  // The steps of a segment, in this order. The caller waits for the copies of a step before the next one, and
  // makes the calls of the host MPI in the order of the segments. A segment is written back unless something
  // has failed.
  void load(SegmentMemory& room, uint64_t segment);
  bool loaded(SegmentMemory& room, bool wait) { return copied(room.read, wait); }
  // With a request, the nonblocking function.
  void call_host(SegmentMemory& room, uint64_t segment, MPI_Request* request);
  void store(SegmentMemory& room, uint64_t segment);
  bool stored(SegmentMemory& room, bool wait) { return copied(room.written, wait); }
  void note_host(int result);
  void fail() { error_ = MPI_ERR_OTHER; }
  // Stores what has gaps in the program's buffers. Returns the first error.
  int end();
  // The host MPI has raised that error.
  bool raised() const { return raised_; }

  // All segments, by the blocking functions. Returns as end() does. Needs two rooms.
  int run(SegmentMemory (&rooms)[2]);

 private:
  struct Block {
    char* address = nullptr;
    uint64_t bytes = 0;
    int device = -1;  // -1: host memory
  };
  // One buffer. Without blocks, this rank passes nothing.
  struct Side {
    std::vector<Block> blocks;
    std::deque<PackedBuffer> buffers;
    bool is_read = false;
    bool even = true;  // the blocks have one length and follow each other
  };
  void add_blocks(Side& side, void* address, MPI_Count count, MPI_Datatype datatype, uint64_t blocks);
  void describe_even();
  void describe_reduce_scatter();
  void describe_allgatherv();
  coll::Slices parts_of(uint64_t bytes) const;
  uint64_t room_of(const Side& side) const;
  Padding padding() const { return call_.reduces() ? Padding::kept : Padding::removed; }
  bool has_result() const { return mpi::has_result(call_, position_); }
  void lay_out(const Side& side, Half& half, uint64_t segment) const;
  void copy(const Side& side, Half& half, uint64_t segment, bool out);
  bool copied(Half& half, bool wait);
  int host(SegmentMemory& room, uint64_t segment, MPI_Request* request) const;
  void note_copy(device::Error error);

  const CollectiveCall call_;
  const CommPosition& position_;
  const MPI_Comm comm_;
  const uint64_t element_;  // bytes that stay together: an element of a reduction, else 1
  const uint64_t segment_;
  uint64_t segments_ = 1;
  Side read_, written_;
  std::optional<Scratch> apart_;  // holds the result until all segments are over
  int error_ = MPI_SUCCESS;
  bool raised_ = false;
};

}  // namespace fairlead::mpi
