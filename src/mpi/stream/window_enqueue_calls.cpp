// SPDX-License-Identifier: Apache-2.0
//
// The functions that enqueue one-sided operations on the stream of a window's communicator. An access is the
// MPI function of the same name, called when the stream has come to it; the stream goes on, and waits in a
// flush. On windows of Fairlead's nothing here waits for other ranks: an access whose target is still locked
// is started again, and a flush is an operation of the engine. On windows of the host MPI, which has no flush
// that can be polled, the thread that makes progress waits in MPI_Win_flush.

#include "mpi/core/interception.h"
#include "mpi/core/request.h"
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
      return window_->raise(error, in_words());
    std::lock_guard lock(engine().mutex());
    last_ = window_->accesses().started();
    return MPI_SUCCESS;
  }
  void advance() override {
    if (!complete() && window_->accesses().are_complete(target_, last_, &error_))
      complete_.store(true, std::memory_order_release);
  }
  void quiesce() override {}
  int finish(MPI_Status* status) override {
    describe(status);
    record_.end();
    return error_ == MPI_SUCCESS ? MPI_SUCCESS : window_->raise(error_, in_words());
  }
  void describe(MPI_Status* status) override { set_empty(status); }
  std::string in_words() const override {
    return target_ == all_targets ? "a flush of all ranks" : "a flush of rank " + std::to_string(target_);
  }

 private:
  std::shared_ptr<Window> window_;
  int target_;
  uint64_t last_ = 0;
  int error_ = MPI_SUCCESS;
};

int enqueue_flush(MPI_Win win, int target) {
  return enqueue_on_window(win, true, [=](MPI_Request* request) {
    if (target == MPI_PROC_NULL) return MPI_SUCCESS;
    if (std::shared_ptr<Window> window = find_window(win))
      return hand_out(std::make_unique<Flush>(std::move(window), target), request);
    return target == all_targets ? MPI_Win_flush_all(win) : MPI_Win_flush(target, win);
  });
}

// The program may free its datatypes before the stream comes to the access.
template <class Call>
int enqueue_access(MPI_Win win, int target, MPI_Datatype origin_type, MPI_Datatype target_type, Call call) {
  return enqueue_on_window(win, false,
                           [=, of_origin = std::make_shared<KeptType>(origin_type),
                            of_target = std::make_shared<KeptType>(target_type)](MPI_Request*) {
                             const std::shared_ptr<Window> window = find_window(win);
                             const bool exists = window && target >= 0 && target < window->targets().size();
                             if (exists && !window->epochs().is_ready(target)) return try_again;
                             return call(of_origin->get(), of_target->get());
                           });
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

// They have names of their own, as the functions of enqueue_calls.cpp do.
#define FAIRLEAD_ENQUEUE_ON_WINDOW(name, parameters)                                                     \
  extern "C" FAIRLEAD_EXPORT int fairlead_##name##_enqueue parameters __asm__("MPIX_" #name "_enqueue"); \
  int fairlead_##name##_enqueue parameters

FAIRLEAD_ENQUEUE_ON_WINDOW(Put, (const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                 int target_rank, MPI_Aint target_disp, int target_count,
                                 MPI_Datatype target_datatype, MPI_Win win)) {
  return enqueue_access(win, target_rank, origin_datatype, target_datatype,
                        [=](MPI_Datatype origin_type, MPI_Datatype target_type) {
                          return MPI_Put(origin_addr, origin_count, origin_type, target_rank, target_disp,
                                         target_count, target_type, win);
                        });
}
FAIRLEAD_ENQUEUE_ON_WINDOW(Get, (void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                 int target_rank, MPI_Aint target_disp, int target_count,
                                 MPI_Datatype target_datatype, MPI_Win win)) {
  return enqueue_access(win, target_rank, origin_datatype, target_datatype,
                        [=](MPI_Datatype origin_type, MPI_Datatype target_type) {
                          return MPI_Get(origin_addr, origin_count, origin_type, target_rank, target_disp,
                                         target_count, target_type, win);
                        });
}
FAIRLEAD_ENQUEUE_ON_WINDOW(Accumulate,
                           (const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                            int target_rank, MPI_Aint target_disp, int target_count,
                            MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)) {
  return enqueue_access(win, target_rank, origin_datatype, target_datatype,
                        [=](MPI_Datatype origin_type, MPI_Datatype target_type) {
                          return MPI_Accumulate(origin_addr, origin_count, origin_type, target_rank,
                                                target_disp, target_count, target_type, op, win);
                        });
}
FAIRLEAD_ENQUEUE_ON_WINDOW(Win_flush, (int rank, MPI_Win win)) {
  return enqueue_flush(win, rank);
}
FAIRLEAD_ENQUEUE_ON_WINDOW(Win_flush_all, (MPI_Win win)) {
  return enqueue_flush(win, all_targets);
}
