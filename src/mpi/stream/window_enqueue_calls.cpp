// SPDX-License-Identifier: Apache-2.0
//
// The functions that enqueue one-sided operations on the stream of a window's communicator. An access is the
// MPI function of the same name, called when the stream has come to it; the stream goes on, and waits in a
// flush. On windows of Fairlead's nothing here waits for other ranks: an access whose target is still locked
// is started again, and a flush is an operation of the engine. On windows of the host MPI, which has no flush
// that can be polled, the thread that makes progress waits in MPI_Win_flush.

#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/rma/window.h"
#include "mpi/stream/streams.h"

namespace fairlead::mpi {
namespace {

// Completes the accesses to a target, or to all_targets, that have started before it.
class Flush : public Operation {
 public:
  Flush(std::shared_ptr<Window> window, int target)
      : Operation(window->targets().comm()), window_(std::move(window)), target_(target) {}
  int start() override {
    begin();
    if (const int error = window_->epochs().may_flush(target_); error != MPI_SUCCESS)
      return window_->raise(error, description());
    std::lock_guard lock(engine().mutex());
    last_ = window_->accesses().started();
    return MPI_SUCCESS;
  }
  void advance() override {
    if (!complete() && window_->accesses().are_complete(target_, last_, &error_))
      complete_.store(true, std::memory_order_release);
  }
  void quiesce() override {}
  void end_if_failed(Failures& failures) override {
    const int failure = failures.of_members(comm_);
    if (failure == MPI_SUCCESS) return;
    error_ = failure;
    complete_.store(true, std::memory_order_release);
  }
  int finish(MPI_Status* status) override {
    describe(status);
    record_.end();
    return error_ == MPI_SUCCESS ? MPI_SUCCESS : window_->raise(error_, description());
  }
  void describe(MPI_Status* status) override { set_empty(status); }
  std::string description() const override {
    return target_ == all_targets ? "a flush of all ranks" : "a flush of rank " + std::to_string(target_);
  }

 private:
  std::shared_ptr<Window> window_;
  int target_;
  uint64_t last_ = 0;
  int error_ = MPI_SUCCESS;
};

int enqueue_flush(MPI_Win win, int target) {
  return enqueue_on_window(win, true, [=](MPI_Request* request) -> int {
    if (target == MPI_PROC_NULL) return MPI_SUCCESS;
    if (std::shared_ptr<Window> window = find_window(win))
      return hand_out(std::make_unique<Flush>(std::move(window), target), request);
    return target == all_targets ? MPI_Win_flush_all(win) : MPI_Win_flush(target, win);
  });
}

// The arguments are those of MPI_Put and its kin, with the `op` of an accumulate last. The program may free
// its datatypes before the stream comes to the access.
template <class Call, class Address, class... Op>
int enqueue_access(Call call, Address origin, int origin_count, MPI_Datatype origin_type, int target,
                   MPI_Aint displacement, int target_count, MPI_Datatype target_type, MPI_Win win, Op... op) {
  (void)is_device(origin, origin_type);  // before it is enqueued: so copies are prepared on the device
  return enqueue_on_window(win, false,
                           [=, of_origin = std::make_shared<KeptType>(origin_type),
                            of_target = std::make_shared<KeptType>(target_type)](MPI_Request*) {
                             const std::shared_ptr<Window> window = find_window(win);
                             const bool exists = window && target >= 0 && target < window->targets().size();
                             if (exists && !window->epochs().is_ready(target)) return try_again;
                             return call(origin, origin_count, of_origin->get(), target, displacement,
                                         target_count, of_target->get(), op..., win);
                           });
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPIX(Put_enqueue,
              (const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
               MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)) {
  const ExtensionCall call("MPIX_Put_enqueue");
  return enqueue_access(MPI_Put, origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                        target_count, target_datatype, win);
}
FAIRLEAD_MPIX(Get_enqueue,
              (void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
               MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)) {
  const ExtensionCall call("MPIX_Get_enqueue");
  return enqueue_access(MPI_Get, origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                        target_count, target_datatype, win);
}
FAIRLEAD_MPIX(Accumulate_enqueue, (const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                   int target_rank, MPI_Aint target_disp, int target_count,
                                   MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)) {
  const ExtensionCall call("MPIX_Accumulate_enqueue");
  return enqueue_access(MPI_Accumulate, origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                        target_count, target_datatype, win, op);
}
FAIRLEAD_MPIX(Win_flush_enqueue, (int rank, MPI_Win win)) {
  const ExtensionCall call("MPIX_Win_flush_enqueue");
  return enqueue_flush(win, rank);
}
FAIRLEAD_MPIX(Win_flush_all_enqueue, (MPI_Win win)) {
  const ExtensionCall call("MPIX_Win_flush_all_enqueue");
  return enqueue_flush(win, all_targets);
}
