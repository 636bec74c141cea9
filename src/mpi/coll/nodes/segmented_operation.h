// SPDX-License-Identifier: Apache-2.0
//
// A nonblocking collective that is staged in segments (segmented_staging.h), or one start of a persistent
// one. A few segments are in flight at once: their copies, and nonblocking collectives of the host MPI.
//
// The operation depends on no call of another rank that the host MPI's own collective would not depend on. If
// this rank is about to block in the host MPI (M6), it copies all segments to host memory and starts the rest
// of the host MPI's collectives, which then make progress without Fairlead.

#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/coll/communicator_state.h"
#include "mpi/coll/nodes/segmented_staging.h"
#include "mpi/core/deferred_free.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

class SegmentedOperation : public Operation {
 public:
  // The same `segment` and `segments` on all ranks. `lent` is the communicator of a persistent collective,
  // which the operation holds, else null.
  SegmentedOperation(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call, Regions regions,
                     uint64_t segment, uint64_t segments, std::shared_ptr<MPI_Comm> lent = nullptr);

  int start() override;
  void advance() override;
  uint64_t bytes() const override { return static_cast<uint64_t>(regions_.bytes()); }
  void quiesce() override;
  bool quiesced() const override { return complete() || called_ == segments_; }
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::string description() const override { return mpi::description(regions_); }

 private:
  // A segment on its way.
  struct Flight {
    explicit Flight(SegmentedStaging::SegmentMemory its_room) : room(std::move(its_room)) {}
    SegmentedStaging::SegmentMemory room;
    MPI_Request request = MPI_REQUEST_NULL;
    enum class Step { before_host, in_host, landing, over } step = Step::before_host;
  };

  bool load_next();
  bool call_next(bool wait);
  void advance(Flight& flight, uint64_t segment);
  void over(int error);

  std::shared_ptr<CommunicatorState> state_;
  std::shared_ptr<MemoryQuestion> question_;  // null, or asked with the call
  std::shared_ptr<MPI_Comm> lent_;
  CollectiveCall call_;
  Regions regions_;
  KeptHandles kept_;
  KeptArrays arrays_;
  const uint64_t segment_, segments_;
  uint64_t number_ = 0;  // in the order of calls
  // The segments below these numbers are copied out, or being copied; in the host MPI; over.
  uint64_t loaded_ = 0, called_ = 0, ended_ = 0;
  bool hurries_ = false;  // this rank is about to block in the host MPI
  std::optional<SegmentedStaging> staging_;
  std::deque<Flight> flights_;  // from the segment `ended_` on
  std::vector<SegmentedStaging::SegmentMemory> spare_;
  int error_ = MPI_SUCCESS;
  bool raised_ = false;
};

}  // namespace fairlead::mpi
