// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/epochs.h"

#include <algorithm>
#include <utility>

#include "mpi/abi/real.h"

namespace fairlead::mpi {
namespace {

constexpr int tag_post = 1, tag_complete = 2;

bool all_over(std::vector<MPI_Request>& requests) {
  return std::all_of(requests.begin(), requests.end(), [](MPI_Request& one) { return over(&one); });
}

}  // namespace

// Checks the epochs in the order of priority that the MPI standard defines: a lock is the innermost epoch.
int Epochs::may_access(int target) {
  bool lock_first = false;
  MPI_Request* posted = nullptr;
  {
    std::lock_guard lock(engine().mutex());
    if (auto found = locked_.find(target); found != locked_.end() && !found->second.coming)
      return MPI_SUCCESS;
    if (locked_all_) {
      lock_first = !locked_all_unchecked_;
    } else if (started_) {
      auto found = started_->find(target);
      if (found == started_->end()) return MPI_ERR_RMA_SYNC;
      posted = &found->second;
    } else if (!fenced_) {
      return MPI_ERR_RMA_SYNC;
    }
  }
  if (posted) targets_.poll_until("the post", target, [&] { return over(posted); });
  if (lock_first) acquire_once(target);
  return MPI_SUCCESS;
}

int Epochs::start_access(const std::shared_ptr<Access>& access) {
  const int error = may_access(access->target());
  return error == MPI_SUCCESS ? accesses_.start(access) : error;
}

// ---- Fences ------------------------------------------------------------------------------------------

int Epochs::fence(int assertion) {
  const int error = accesses_.complete(all_targets);
  const int result = targets_.barrier();
  std::lock_guard lock(engine().mutex());
  fenced_ = !(assertion & MPI_MODE_NOSUCCEED);
  return error == MPI_SUCCESS ? result : error;
}

// ---- Groups ------------------------------------------------------------------------------------------

int Epochs::post(MPI_Group group, int assertion) {
  if (group == MPI_GROUP_NULL) return MPI_ERR_GROUP;
  const std::vector<int> origins = targets_.ranks_of(group);
  std::lock_guard lock(engine().mutex());
  if (exposed_) return MPI_ERR_RMA_SYNC;
  exposed_.emplace();
  for (int origin : origins) {
    if (!(assertion & MPI_MODE_NOCHECK))
      real.Isend(nullptr, 0, MPI_BYTE, origin, tag_post, targets_.comm(), &exposed_->emplace_back());
    real.Irecv(nullptr, 0, MPI_BYTE, origin, tag_complete, targets_.comm(), &exposed_->emplace_back());
  }
  return MPI_SUCCESS;
}

int Epochs::start(MPI_Group group, int assertion) {
  if (group == MPI_GROUP_NULL) return MPI_ERR_GROUP;
  const std::vector<int> targets = targets_.ranks_of(group);
  std::lock_guard lock(engine().mutex());
  if (started_ || locked_all_ || !locked_.empty()) return MPI_ERR_RMA_SYNC;
  started_.emplace();
  for (int target : targets) {
    MPI_Request& posted = (*started_)[target] = MPI_REQUEST_NULL;
    if (!(assertion & MPI_MODE_NOCHECK))
      real.Irecv(nullptr, 0, MPI_BYTE, target, tag_post, targets_.comm(), &posted);
  }
  return MPI_SUCCESS;
}

int Epochs::complete() {
  {
    std::lock_guard lock(engine().mutex());
    if (!started_) return MPI_ERR_RMA_SYNC;
  }
  const int error = accesses_.complete(all_targets);
  targets_.poll_until("posts", -1, [&] {
    return std::all_of(started_->begin(), started_->end(), [](auto& entry) { return over(&entry.second); });
  });
  std::vector<MPI_Request> told;
  {
    std::lock_guard lock(engine().mutex());
    for (const auto& [target, posted] : *started_)
      real.Isend(nullptr, 0, MPI_BYTE, target, tag_complete, targets_.comm(), &told.emplace_back());
    started_.reset();
  }
  targets_.poll_until("its targets", -1, [&] { return all_over(told); });
  return error;
}

// Ends the exposure epoch if its origins have completed it. The caller holds the engine's lock.
int Epochs::end_exposure(int* flag) {
  if (!exposed_) return MPI_ERR_RMA_SYNC;
  *flag = all_over(*exposed_);
  if (*flag) exposed_.reset();
  return MPI_SUCCESS;
}

int Epochs::test(int* flag) {
  engine().progress();
  std::lock_guard lock(engine().mutex());
  return end_exposure(flag);
}

int Epochs::wait() {
  int result = MPI_SUCCESS, flag = 0;
  targets_.poll_until("the origins of its exposure epoch", -1, [&] {
    result = end_exposure(&flag);
    return flag || result != MPI_SUCCESS;
  });
  return result;
}

// ---- Locks -------------------------------------------------------------------------------------------

void Epochs::acquire(int target, bool exclusive) {
  if (rma::TargetWords* shared = targets_.words(target)) {
    const uint32_t ticket = shared->lock.draw();
    targets_.poll_until("the lock", target, [&] { return shared->lock.enter(ticket, exclusive); });
  } else {
    ask_and_wait(target, rma::Request::lock, exclusive);
  }
  std::lock_guard lock(engine().mutex());
  locked_[target] = {exclusive, true};
}

// If several threads access a target at once, the first takes the lock and the others wait for it.
void Epochs::acquire_once(int target) {
  bool first = false;
  {
    std::lock_guard lock(engine().mutex());
    first = locked_.try_emplace(target, Locked{.coming = true}).second;
  }
  if (first) return acquire(target, false);
  targets_.poll_until("the lock", target, [&] { return !locked_.at(target).coming; });
}

void Epochs::release(int target, bool exclusive) {
  if (rma::TargetWords* shared = targets_.words(target))
    shared->lock.leave(exclusive);
  else
    ask_and_wait(target, rma::Request::unlock, exclusive);
}

void Epochs::ask_and_wait(int target, rma::Request kind, bool exclusive) {
  bool answered = false;
  rma::Header header;
  header.kind = kind;
  header.exclusive = exclusive;
  {
    std::lock_guard lock(engine().mutex());
    messages_.ask(target, rma::make_request(header, {nullptr, 0}, 0, 0, 0),
                  [&](const rma::Message&) { answered = true; });
  }
  targets_.poll_until("the lock", target, [&] {
    messages_.advance();
    return answered;
  });
}

int Epochs::lock(int lock_type, int target, int assertion) {
  if (target == MPI_PROC_NULL) return MPI_SUCCESS;
  if (target < 0 || target >= targets_.size()) return MPI_ERR_RANK;
  const bool exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
  {
    std::lock_guard lock(engine().mutex());
    if (locked_.contains(target) || locked_all_ || started_) return MPI_ERR_RMA_SYNC;
    if (assertion & MPI_MODE_NOCHECK) {
      locked_[target] = {exclusive, false};
      return MPI_SUCCESS;
    }
  }
  acquire(target, exclusive);
  return MPI_SUCCESS;
}

int Epochs::unlock(int target) {
  if (target == MPI_PROC_NULL) return MPI_SUCCESS;
  if (target < 0 || target >= targets_.size()) return MPI_ERR_RANK;
  Locked held;
  {
    std::lock_guard lock(engine().mutex());
    auto found = locked_.find(target);
    if (found == locked_.end() || locked_all_) return MPI_ERR_RMA_SYNC;
    held = found->second;
  }
  const int error = accesses_.complete(target);
  if (held.held) release(target, held.exclusive);
  std::lock_guard lock(engine().mutex());
  locked_.erase(target);
  return error;
}

// Takes the locks of other targets only when an access needs them.
int Epochs::lock_all(int assertion) {
  {
    std::lock_guard lock(engine().mutex());
    if (locked_all_ || !locked_.empty() || started_) return MPI_ERR_RMA_SYNC;
    locked_all_ = true;
    locked_all_unchecked_ = assertion & MPI_MODE_NOCHECK;
    if (locked_all_unchecked_) return MPI_SUCCESS;
  }
  // The program may load from and store to its own window from now on.
  acquire_once(targets_.rank());
  return MPI_SUCCESS;
}

int Epochs::unlock_all() {
  std::map<int, Locked> held;
  {
    std::lock_guard lock(engine().mutex());
    if (!locked_all_) return MPI_ERR_RMA_SYNC;
  }
  const int error = accesses_.complete(all_targets);
  {
    std::lock_guard lock(engine().mutex());
    held = std::exchange(locked_, {});
    locked_all_ = false;
  }
  for (const auto& [target, one] : held) release(target, one.exclusive);
  return error;
}

int Epochs::flush(int target) {
  if (target == MPI_PROC_NULL) return MPI_SUCCESS;
  if (target < 0 || target >= targets_.size()) return MPI_ERR_RANK;
  {
    std::lock_guard lock(engine().mutex());
    if (!locked_all_ && !locked_.contains(target)) return MPI_ERR_RMA_SYNC;
  }
  return accesses_.complete(target);
}

int Epochs::flush_all() {
  {
    std::lock_guard lock(engine().mutex());
    if (!locked_all_ && locked_.empty()) return MPI_ERR_RMA_SYNC;
  }
  return accesses_.complete(all_targets);
}

}  // namespace fairlead::mpi
