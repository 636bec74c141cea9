// SPDX-License-Identifier: Apache-2.0
//
// The epochs of one rank on a window: which accesses may start, and which must be complete. The host MPI's
// epochs play no part in them. A rank that shares memory with a target locks it by words in that memory; any
// other rank sends a request, and the target takes the same words on its behalf. Posts and completions are
// messages on the window's communicator. A fence is a polled barrier. Every wait here serves other ranks
// meanwhile.
//
// All functions return MPI error codes, and the caller raises them. The engine's lock guards the members.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/rma/accesses.h"

namespace fairlead::mpi {

class Epochs {
 public:
  Epochs(Targets& targets, ActiveMessages& messages, Accesses& accesses)
      : targets_(targets), messages_(messages), accesses_(accesses) {}

  // Starts the access if an epoch allows it; waits for the target's post or lock where the epoch needs it.
  int start_access(const std::shared_ptr<Access>& access);
  // Can start_access() start an access to this target, or fail, without waiting? Asks for the lock that it
  // needs.
  bool is_ready(int target);

  // Like the MPI functions of these names.
  int fence(int assertion);
  int post(MPI_Group group, int assertion);
  int start(MPI_Group group, int assertion);
  int complete();
  int wait();
  int test(int* flag);
  int lock(int lock_type, int target, int assertion);
  int unlock(int target);
  int lock_all(int assertion);
  int unlock_all();
  int flush(int target);
  int flush_all() { return flush(all_targets); }
  // Does an epoch allow a flush?
  int may_flush(int target);

 private:
  struct Locked {
    bool exclusive = false;
    bool held = false;    // false with MPI_MODE_NOCHECK
    bool coming = false;  // asked for, but not yet granted
    uint32_t ticket = 0;
    bool lost = false;  // another process has damaged the lock
  };
  int may_access(int target, bool* ready);
  int end_exposure(int* flag);
  void ask_for_lock(int target, bool exclusive);
  bool has_lock(int target);
  int wait_for_lock(int target);
  void end_wait(Locked& locked, bool granted);
  int release(int target, bool exclusive);
  void ask(int target, rma::Request kind, bool exclusive, ActiveMessages::OnAnswer on_answer);

  Targets& targets_;
  ActiveMessages& messages_;
  Accesses& accesses_;
  bool fenced_ = false;
  std::optional<std::map<int, MPI_Request>> started_;  // the request that completes when a target has posted
  std::optional<std::vector<MPI_Request>> exposed_;
  std::map<int, Locked> locked_;
  bool locked_all_ = false, locked_all_unchecked_ = false;
};

}  // namespace fairlead::mpi
