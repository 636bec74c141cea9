// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/one_sided/epochs.h"

namespace fairlead::tools {

Epochs::Epochs(Sync sync, MPI_Win window, MPI_Comm members, const std::vector<int>& partners)
    : sync_(sync), window_(window), target_(partners.front()) {
  MPI_Comm_rank(members, &rank_);
  MPI_Group all;
  MPI_Comm_group(members, &all);
  MPI_Group_incl(all, static_cast<int>(partners.size()), partners.data(), &partners_);
  MPI_Group_free(&all);
}

void Epochs::open(bool origin) const {
  if (sync_ == Sync::fence) MPI_Win_fence(MPI_MODE_NOPRECEDE, window_);
  if (origin && locked_throughout()) MPI_Win_lock(MPI_LOCK_SHARED, target_, 0, window_);
}

void Epochs::close(bool origin) const {
  if (sync_ == Sync::fence) MPI_Win_fence(MPI_MODE_NOSUCCEED, window_);
  if (origin && locked_throughout()) MPI_Win_unlock(target_, window_);
}

void Epochs::begin() const {
  if (sync_ == Sync::lock) MPI_Win_lock(MPI_LOCK_SHARED, target_, 0, window_);
  if (sync_ == Sync::lock_all) MPI_Win_lock_all(0, window_);
  if (sync_ == Sync::pscw) MPI_Win_start(partners_, 0, window_);
}

void Epochs::end() const {
  switch (sync_) {
    case Sync::flush:
      MPI_Win_flush(target_, window_);
      break;
    case Sync::flush_local:
      MPI_Win_flush_local(target_, window_);
      break;
    case Sync::lock:
      MPI_Win_unlock(target_, window_);
      break;
    case Sync::lock_all:
      MPI_Win_unlock_all(window_);
      break;
    case Sync::fence:
      MPI_Win_fence(0, window_);
      break;
    case Sync::pscw:
      MPI_Win_complete(window_);
      break;
  }
}

void Epochs::expose() const {
  if (sync_ == Sync::fence) MPI_Win_fence(0, window_);
  if (sync_ != Sync::pscw) return;
  MPI_Win_post(partners_, 0, window_);
  MPI_Win_wait(window_);
}

}  // namespace fairlead::tools
