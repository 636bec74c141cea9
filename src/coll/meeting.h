// SPDX-License-Identifier: Apache-2.0
//
// Small blocking collectives whose ranks meet in one kernel (kernels/meet.h): the part of one rank, for the
// members of a collective slot that all announced `meets`. A member launches its kernel when all have
// arrived, and is done when its own kernel is over: nobody maps memory of others, and nobody waits for the
// CPU of another one.
//
// The kernel needs memory of each member that all have mapped, the scratch. After a few calls that could have
// run so, a member exports its scratch before it arrives, and maps those of the others when all have arrived
// and run the call otherwise. From then on it announces `meets`.
//
// A kernel that has not found all blocks in time ends, so that it holds no part of the GPU, and is launched
// again. Members whose offers are not met some times make none for a while.
//
// Belongs to one thread at a time (the engine's lock).

#pragma once

#include <chrono>
#include <vector>

#include "coll/gpu_collective.h"
#include "device/context.h"

namespace fairlead::coll {

class MeetingPlace {
 public:
  // `members`: the node rank of each member of the slot.
  MeetingPlace(node::Node& node, CollectiveSlot& slot, const std::vector<int>& members);
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  // May this rank announce `meets`? Then its record tells the others what it will do.
  bool offers(uint64_t number, const MeetCall& call);
  // The call runs otherwise, and unless this rank had offered to meet, all members have arrived.
  void run_otherwise(uint64_t number, bool had_offered);
  // All members announced `meets`. Do they all mean the same? The answer is the same on all.
  bool all_agree(uint64_t number, const MeetCall& call);
  Progress advance(uint64_t number, const MeetCall& call);
  // This rank leaves a call for which it had offered to meet, and makes no further offers. False as long as
  // its kernel runs.
  bool abandon();

 private:
  void expose(uint64_t number, int device);
  void map_others(uint64_t number);
  bool launch(uint64_t number, const MeetCall& call);
  bool any_failed(uint64_t number);
  Progress fail(uint64_t number, const char* why);
  void never();

  node::Node& node_;
  CollectiveSlot& slot_;
  const std::vector<int>& members_;
  // `left`: others may still store to the scratch, which is never freed.
  enum class Step { counting, exposed, ready, never, left } step_ = Step::counting;
  int device_ = -1, calls_ = 0, tries_ = 0;
  device::Context context_;
  char* scratch_ = nullptr;
  uint64_t scratch_bytes_ = 0;
  uint64_t* late_ = nullptr;      // page-locked: the number of a call of which a kernel has missed something
  std::vector<char*> scratches_;  // of all members
  std::vector<device::MappedMemory> mapped_;
  uint64_t launched_ = 0;  // the call under way, or the last one
  bool first_ = true, running_ = false;
  kernels::KernelRun kernel_;
  std::chrono::microseconds pause_{};
  std::chrono::steady_clock::time_point again_{};
  int unmet_ = 0;           // offers in a row
  uint64_t silent_to_ = 0;  // makes no offers up to this call
};

}  // namespace fairlead::coll
