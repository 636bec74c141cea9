// SPDX-License-Identifier: Apache-2.0
//
// Collectives by NCCL: the part of one rank, for the members of a collective slot that all announced `nccl`.
//
// NCCL's kernels wait for each other on their GPUs, which nothing else in Fairlead does. This cannot
// deadlock, because a process reserves NCCL for one communicator at a time, from the arrival of a collective
// that may run by NCCL until it has run or takes another path, and launches the collectives of that
// communicator in the order of their calls. docs/design/nccl.md proves it. Fairlead's other work on
// these GPUs ends by itself: kernels and copies wait for no kernel, have bounded grids, and run in other
// streams.
//
// The members create the communicator at the first such collective. Then they also check whether each of them
// has a GPU of its own, which NCCL requires unless its user allows ranks to share one. If something fails on
// one member, all members learn this through the slot's memory and stop using NCCL. Nothing here blocks: NCCL
// creates, starts and finalizes in threads of its own, and this class polls the state.
//
// All of it belongs to one thread at a time (the engine's lock).

#pragma once

#include <vector>

#include "base/rate_limit.h"
#include "coll/gpu_collective.h"
#include "coll/nccl_library.h"
#include "device/context.h"

namespace fairlead::coll {

class NcclMember {
 public:
  explicit NcclMember(CollectiveSlot& slot);
  ~NcclMember();
  NcclMember(const NcclMember&) = delete;
  NcclMember& operator=(const NcclMember&) = delete;

  // May this rank announce `nccl` for a call with memory on this device, as far as it knows? If so, NCCL is
  // reserved for the call, and this rank's record contains what the other members need to know.
  bool reserve(uint64_t number, int device);
  // A reserved call takes another path.
  void release(uint64_t number);
  // Progresses the collective for which all members announced `nccl`. refused: every member declines NCCL.
  Progress advance(uint64_t number, const NcclCall& call);
  // advance() no longer returns `refused` for this call.
  bool has_launched(uint64_t number) const { return number <= launched_up_to_; }
  // A member has failed: nobody uses NCCL any more, and what runs ends.
  void abandon_for_all();
  // Finalizes the communicator, which this member no longer needs. Does not wait for the other members.
  void give_back();

 private:
  // A member's stage of creating the communicator.
  enum class Stage : uint64_t { none, told_id, made, not_made };
  Stage stage_of(int member, uint64_t number);
  void signal(uint64_t number, Stage stage);

  bool gpus_serve(uint64_t number);
  void tell_id(uint64_t number);
  void begin_making(uint64_t number);
  void go_on_making(uint64_t number);
  void cannot_make(uint64_t number, const std::string& why);
  bool all_have_made(uint64_t number);
  Progress start(uint64_t number, const NcclCall& call);
  Progress go_on_starting(uint64_t number, const NcclCall& call);
  Progress run(uint64_t number);
  Progress failed(const std::string& why);
  Progress check();
  void abandon();
  void free_if_idle();

  CollectiveSlot& slot_;
  // Of the communicator. While it is `starting`, a collective is not in the stream yet.
  enum class Step { none, learning_id, making, agreeing, ready, starting, never } step_ = Step::none;
  int device_ = -1;
  device::Context context_;
  NcclLibrary::Communicator communicator_ = nullptr;
  device::Stream stream_ = nullptr;
  // The collectives, in the order of their numbers: reserved, and then in the stream, each with the event of
  // its end.
  struct Flight {
    uint64_t number;
    device::Event event;
  };
  std::vector<uint64_t> reserved_;
  std::vector<Flight> flights_;
  std::vector<device::Event> spare_;
  uint64_t reserved_up_to_ = 0, launched_up_to_ = 0, over_up_to_ = 0;
  RareLook rare_look_;
};

// All ranks call this in MPI_Finalize, until it returns true. It finalizes the remaining communicators and
// destroys those that all members have left; true: all of them are destroyed. If a rank has failed, it aborts
// those that some members have not left.
bool release_nccl(bool a_rank_has_failed);

}  // namespace fairlead::coll
