// SPDX-License-Identifier: Apache-2.0
//
// What begins and ends the accesses of a step, by the words of the OSU benchmarks. Locks are shared ones.

#pragma once

#include <mpi.h>

#include <vector>

#include "bench/one_sided.h"

namespace fairlead::tools {

class Epochs {
 public:
  // `partners`: whom this rank accesses, and who accesses it; members of the window's communicator. Passive
  // targets have one origin each, and one target.
  Epochs(Sync sync, MPI_Win window, MPI_Comm members, const std::vector<int>& partners);
  ~Epochs() { MPI_Group_free(&partners_); }
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  // Around any number of steps, by all ranks. `origin`: this rank accesses.
  void open(bool origin) const;
  void close(bool origin) const;

  // A step: this rank accesses, the other way round, or both at once.
  template <class Accesses>
  void access(const Accesses& accesses) const {
    begin();
    accesses();
    end();
  }
  // For active targets alone.
  void expose() const;
  template <class Accesses>
  void exchange(const Accesses& accesses) const {
    if (sync_ == Sync::pscw) MPI_Win_post(partners_, 0, window_);
    access(accesses);
    if (sync_ == Sync::pscw) MPI_Win_wait(window_);
  }

  // While no epochs are open: this rank's own memory may be filled and looked at.
  template <class Local>
  void at_home(const Local& local) const {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, window_);
    local();
    MPI_Win_unlock(rank_, window_);
  }

 private:
  void begin() const;
  void end() const;
  bool locked_throughout() const { return sync_ == Sync::flush || sync_ == Sync::flush_local; }

  Sync sync_;
  MPI_Win window_;
  int rank_ = 0, target_;
  MPI_Group partners_ = MPI_GROUP_NULL;
};

}  // namespace fairlead::tools
