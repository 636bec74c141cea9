// SPDX-License-Identifier: Apache-2.0
//
// Collectives by NCCL: what one rank does for the members of a meeting that have all voted `nccl`.
//
// NCCL's kernels wait for each other on their GPUs, as nothing else of Fairlead does. That cannot deadlock,
// for NCCL is used by blocking collectives only, in processes in which one thread at a time calls MPI. Such a
// process has at most one kernel of NCCL on its way, and launches it when all members have come and have
// decided for it; each of them does nothing then but launch its own and poll. So none waits for one whose
// launch waits for another of them. What else of Fairlead is on these GPUs ends by itself: kernels and copies
// wait for no kernel, have bounded grids, and run in other streams.
//
// The communicator is made at the first such collective; then it turns out whether each member has a GPU of
// its own, which NCCL demands. What fails on one member is learnt by all through the meeting's memory, and
// they use NCCL no more. Nothing here blocks: NCCL makes, starts and gives back in threads of its own, and is
// asked how far it is.
//
// Belongs to the thread that calls collectives.

#pragma once

#include "coll/gpu_collective.h"
#include "coll/nccl_library.h"

namespace fairlead::coll {

class NcclMember {
 public:
  explicit NcclMember(CollectiveSlot& slot);
  ~NcclMember();
  NcclMember(const NcclMember&) = delete;
  NcclMember& operator=(const NcclMember&) = delete;

  // May this rank vote `nccl` for a call with memory on this device, as far as it knows? The record has what
  // the others must know then.
  bool may_run(uint64_t number, int device);
  // Of the collective that all have voted for. refused: not by NCCL, says every member.
  Progress advance(uint64_t number, const NcclCall& call);
  // The members need it no more. Others may come to that later: nobody is waited for.
  void give_back();

 private:
  // How far a member is with the communicator.
  enum class Stage : uint64_t { none, told_id, made, not_made };
  Stage stage_of(int member, uint64_t number);
  void tell(uint64_t number, Stage stage);

  bool each_has_a_gpu_of_its_own(uint64_t number);
  void tell_id(uint64_t number);
  void begin_making(uint64_t number);
  void go_on_making(uint64_t number);
  void cannot_make(uint64_t number, const std::string& why);
  bool all_have_made(uint64_t number);
  Progress start(const NcclCall& call);
  Progress go_on_starting(const NcclCall& call);
  Progress run();
  Progress failed(const std::string& why);
  Progress check();
  void abandon();

  static constexpr unsigned polls_between_questions = 64;

  CollectiveSlot& slot_;
  enum class Step { none, learning_id, making, agreeing, ready, starting, running, never } step_ = Step::none;
  int device_ = -1;
  NcclLibrary::Communicator communicator_ = nullptr;
  device::Stream stream_ = nullptr;
  device::Event event_ = nullptr;
  unsigned polls_ = 0;
};

// In MPI_Finalize, by all ranks: gives back what is left, and waits for all that was.
void release_nccl();

}  // namespace fairlead::coll
