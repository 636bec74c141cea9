// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/epochs.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "mpi/abi/real.h"

namespace fairlead::mpi {
namespace {

constexpr int tag_post = 1, tag_complete = 2;

// The first of them that is an error.
template <class... Others>
int first_of(int result, Others... others) {
  ((result = result == MPI_SUCCESS ? others : result), ...);
  return result;
}

bool all_over(std::vector<MPI_Request>& requests) {
  return std::all_of(requests.begin(), requests.end(), [](MPI_Request& one) { return over(&one); });
}

}  // namespace

// Checks the epochs in the order of priority that the MPI standard defines: a lock is the innermost epoch.
// The access must wait unless it is `ready`. The caller holds the engine's lock.
int Epochs::may_access(int target, bool* ready) {
  auto locked = locked_.find(target);
  *ready = true;
  if (locked != locked_.end() && !locked->second.coming)
    return locked->second.lost ? MPI_ERR_OTHER : MPI_SUCCESS;
  if (locked_all_) {
    if (locked_all_unchecked_) return MPI_SUCCESS;
    // The first access asks for the lock, and others wait for the same.
    if (locked == locked_.end()) ask_for_lock(target, false);
    *ready = has_lock(target);
    if (locked_.at(target).lost) return MPI_ERR_OTHER;
  } else if (started_) {
    auto posted = started_->find(target);
    if (posted == started_->end()) return MPI_ERR_RMA_SYNC;
    *ready = over(&posted->second);
  } else if (!fenced_) {
    return MPI_ERR_RMA_SYNC;
  }
  return MPI_SUCCESS;
}

bool Epochs::is_ready(int target) {
  bool ready = false;
  std::lock_guard lock(engine().mutex());
  return may_access(target, &ready) != MPI_SUCCESS || (ready && accesses_.has_room());
}

int Epochs::start_access(const std::shared_ptr<Access>& access) {
  const int target = access->target();
  int error = MPI_SUCCESS;
  bool ready = false, locks = false;
  {
    std::lock_guard lock(engine().mutex());
    error = may_access(target, &ready);
    locks = locked_all_;
  }
  if (!ready) {
    const int failure = targets_.poll_until(locks ? "the lock" : "the post", target, [&] {
      error = may_access(target, &ready);
      return ready;
    });
    if (failure != MPI_SUCCESS) return failure;
  }
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
  const int posted = targets_.poll_until("posts", -1, [&] {
    return std::all_of(started_->begin(), started_->end(), [](auto& entry) { return over(&entry.second); });
  });
  std::vector<MPI_Request> told;
  {
    std::lock_guard lock(engine().mutex());
    for (const auto& [target, posted] : *started_)
      real.Isend(nullptr, 0, MPI_BYTE, target, tag_complete, targets_.comm(), &told.emplace_back());
    started_.reset();
  }
  const int received = targets_.poll_until("its targets", -1, [&] { return all_over(told); });
  return first_of(error, posted, received);
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
  const int failure = targets_.poll_until("the origins of its exposure epoch", -1, [&] {
    result = end_exposure(&flag);
    return flag || result != MPI_SUCCESS;
  });
  return first_of(result, failure);
}

// ---- Locks -------------------------------------------------------------------------------------------

// The caller of these three holds the engine's lock.
void Epochs::ask(int target, rma::Request kind, bool exclusive, ActiveMessages::OnAnswer on_answer) {
  rma::Header header;
  header.kind = kind;
  header.exclusive = exclusive;
  messages_.ask(target, rma::make_request(header, {nullptr, 0}, 0, 0, 0), std::move(on_answer));
}

void Epochs::ask_for_lock(int target, bool exclusive) {
  Locked& locked = locked_[target] = {exclusive, true, true};
  if (rma::TargetWords* shared = targets_.words(target))
    locked.ticket = shared->lock.draw();
  else
    ask(target, rma::Request::lock, exclusive, [this, target](const rma::Message& answer) {
      if (auto locked = locked_.find(target); locked != locked_.end())
        end_wait(locked->second, answer.header().outcome == rma::Outcome::done);
    });
}

void Epochs::end_wait(Locked& locked, bool granted) {
  locked.coming = false;
  locked.held = granted;
  locked.lost = !granted;
  if (locked.lost) log_line(LogLevel::error, "another process has damaged the lock of a window");
}

bool Epochs::has_lock(int target) {
  Locked& locked = locked_.at(target);
  if (!locked.coming) return true;
  if (rma::TargetWords* shared = targets_.words(target)) {
    const bool granted = shared->lock.enter(locked.ticket, locked.exclusive);
    if (granted || shared->lock.is_damaged(locked.ticket)) end_wait(locked, granted);
  } else {
    messages_.advance();
  }
  return !locked.coming;
}

// If a process of the window has failed, nobody who waits for a ticket of this rank gets the lock either. If
// the lock is damaged, no epoch begins.
int Epochs::wait_for_lock(int target) {
  const int failure = targets_.poll_until("the lock", target, [&] { return has_lock(target); });
  std::lock_guard lock(engine().mutex());
  const bool lost = failure == MPI_SUCCESS && locked_.at(target).lost;
  if (lost || failure != MPI_SUCCESS) locked_.erase(target);
  return lost ? MPI_ERR_OTHER : failure;
}

int Epochs::release(int target, bool exclusive) {
  if (rma::TargetWords* shared = targets_.words(target)) {
    shared->lock.leave(exclusive);
    return MPI_SUCCESS;
  }
  const auto answered = std::make_shared<bool>(false);  // the answer may come after a failure
  {
    std::lock_guard lock(engine().mutex());
    ask(target, rma::Request::unlock, exclusive, [answered](const rma::Message&) { *answered = true; });
  }
  return targets_.poll_until("the lock", target, [&] {
    messages_.advance();
    return *answered;
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
    ask_for_lock(target, exclusive);
  }
  return wait_for_lock(target);
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
  const int released = held.held ? release(target, held.exclusive) : MPI_SUCCESS;
  std::lock_guard lock(engine().mutex());
  locked_.erase(target);
  return first_of(error, released);
}

// Takes the locks of other targets only when an access needs them.
int Epochs::lock_all(int assertion) {
  {
    std::lock_guard lock(engine().mutex());
    if (locked_all_ || !locked_.empty() || started_) return MPI_ERR_RMA_SYNC;
    locked_all_ = true;
    locked_all_unchecked_ = assertion & MPI_MODE_NOCHECK;
    if (locked_all_unchecked_) return MPI_SUCCESS;
    // The program may load from and store to its own window from now on.
    ask_for_lock(targets_.rank(), false);
  }
  const int failure = wait_for_lock(targets_.rank());
  if (failure != MPI_SUCCESS) locked_all_ = false;
  return failure;
}

int Epochs::unlock_all() {
  std::map<int, Locked> held;
  {
    std::lock_guard lock(engine().mutex());
    if (!locked_all_) return MPI_ERR_RMA_SYNC;
  }
  const int error = accesses_.complete(all_targets);
  // An access that is enqueued on a stream may have asked for a lock.
  const int granted = targets_.poll_until("the locks", -1, [&] {
    return std::all_of(locked_.begin(), locked_.end(), [&](const auto& one) { return has_lock(one.first); });
  });
  {
    std::lock_guard lock(engine().mutex());
    held = std::exchange(locked_, {});
    locked_all_ = false;
  }
  int released = MPI_SUCCESS;
  for (const auto& [target, one] : held)
    if (one.held && !one.coming) released = first_of(released, release(target, one.exclusive));
  return first_of(error, granted, released);
}

int Epochs::may_flush(int target) {
  if (target != all_targets && (target < 0 || target >= targets_.size())) return MPI_ERR_RANK;
  std::lock_guard lock(engine().mutex());
  const bool locked = target == all_targets ? !locked_.empty() : locked_.contains(target);
  return locked || locked_all_ ? MPI_SUCCESS : MPI_ERR_RMA_SYNC;
}

int Epochs::flush(int target) {
  if (target == MPI_PROC_NULL) return MPI_SUCCESS;
  const int error = may_flush(target);
  return error == MPI_SUCCESS ? accesses_.complete(target) : error;
}

}  // namespace fairlead::mpi
