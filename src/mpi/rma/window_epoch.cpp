// SPDX-License-Identifier: Apache-2.0
//
// Epochs of Fairlead's windows. A rank that shares memory with a target locks it by words in that memory; any
// other rank sends a request, and the target takes the same words on its behalf. Posts and completions are
// messages on the window's communicator. A fence is a polled barrier. Every wait here serves other ranks
// meanwhile.

#include <algorithm>

#include "mpi/core/interception.h"
#include "mpi/core/request.h"
#include "mpi/rma/window.h"
#include "mpi/rma/window_access.h"

namespace fairlead::mpi {
namespace {

constexpr int tag_post = 1, tag_complete = 2;

}  // namespace

// Checks the epochs in the order of priority that the MPI standard defines: a lock is the innermost epoch.
int Window::may_access(int target) {
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
  if (posted) poll_until("the post", target, [&] { return over(posted); });
  if (lock_first) acquire_once(target);
  return MPI_SUCCESS;
}

// ---- Fences ------------------------------------------------------------------------------------------

int Window::fence(int assertion) {
  const int error = complete(-1);
  const int result = barrier();
  std::lock_guard lock(engine().mutex());
  fenced_ = !(assertion & MPI_MODE_NOSUCCEED);
  return error == MPI_SUCCESS ? result : error;
}

// ---- Groups ------------------------------------------------------------------------------------------

std::vector<int> Window::members_of(MPI_Group group) const {
  int size = 0;
  PMPI_Group_size(group, &size);
  std::vector<int> own(static_cast<size_t>(size)), members(own.size());
  for (int i = 0; i < size; ++i) own[static_cast<size_t>(i)] = i;
  MPI_Group all;
  PMPI_Comm_group(comm_, &all);
  PMPI_Group_translate_ranks(group, size, own.data(), all, members.data());
  PMPI_Group_free(&all);
  return members;
}

int Window::post(MPI_Group group, int assertion) {
  const std::vector<int> origins = members_of(group);
  std::lock_guard lock(engine().mutex());
  if (exposed_) return MPI_ERR_RMA_SYNC;
  exposed_.emplace();
  for (int origin : origins) {
    if (!(assertion & MPI_MODE_NOCHECK))
      real.Isend(nullptr, 0, MPI_BYTE, origin, tag_post, comm_, &exposed_->emplace_back());
    real.Irecv(nullptr, 0, MPI_BYTE, origin, tag_complete, comm_, &exposed_->emplace_back());
  }
  return MPI_SUCCESS;
}

int Window::start(MPI_Group group, int assertion) {
  const std::vector<int> targets = members_of(group);
  std::lock_guard lock(engine().mutex());
  if (started_ || locked_all_ || !locked_.empty()) return MPI_ERR_RMA_SYNC;
  started_.emplace();
  for (int target : targets) {
    MPI_Request& posted = (*started_)[target] = MPI_REQUEST_NULL;
    if (!(assertion & MPI_MODE_NOCHECK)) real.Irecv(nullptr, 0, MPI_BYTE, target, tag_post, comm_, &posted);
  }
  return MPI_SUCCESS;
}

int Window::end_access() {
  {
    std::lock_guard lock(engine().mutex());
    if (!started_) return MPI_ERR_RMA_SYNC;
  }
  const int error = complete(-1);
  poll_until("posts", -1, [&] {
    return std::all_of(started_->begin(), started_->end(), [](auto& entry) { return over(&entry.second); });
  });
  std::vector<MPI_Request> told;
  {
    std::lock_guard lock(engine().mutex());
    for (const auto& [target, posted] : *started_)
      real.Isend(nullptr, 0, MPI_BYTE, target, tag_complete, comm_, &told.emplace_back());
    started_.reset();
  }
  poll_until("its targets", -1,
             [&] { return std::all_of(told.begin(), told.end(), [](auto& one) { return over(&one); }); });
  return error;
}

int Window::test_exposure(int* flag) {
  engine().progress();
  std::lock_guard lock(engine().mutex());
  if (!exposed_) return MPI_ERR_RMA_SYNC;
  *flag = std::all_of(exposed_->begin(), exposed_->end(), [](auto& one) { return over(&one); });
  if (*flag) exposed_.reset();
  return MPI_SUCCESS;
}

int Window::wait_exposure() {
  int result = MPI_SUCCESS, here = 0;
  ReportTimer report_timer;
  for (Backoff backoff; !here && result == MPI_SUCCESS; backoff.pause()) {
    result = test_exposure(&here);
    if (report_timer.is_over()) complain("the origins of its exposure epoch", -1);
  }
  return result;
}

// ---- Locks -------------------------------------------------------------------------------------------

void Window::acquire(int target, bool exclusive) {
  if (rma::TargetWords* shared = words(target)) {
    const uint32_t ticket = shared->lock.draw();
    poll_until("the lock", target, [&] { return shared->lock.enter(ticket, exclusive); });
  } else {
    ask_and_wait(target, rma::Request::lock, exclusive);
  }
  std::lock_guard lock(engine().mutex());
  locked_[target] = {exclusive, true};
}

// If several threads access a target at once, the first takes the lock and the others wait for it.
void Window::acquire_once(int target) {
  bool first = false;
  {
    std::lock_guard lock(engine().mutex());
    first = locked_.try_emplace(target, Locked{.coming = true}).second;
  }
  if (first) return acquire(target, false);
  poll_until("the lock", target, [&] { return !locked_.at(target).coming; });
}

void Window::release(int target, bool exclusive) {
  if (rma::TargetWords* shared = words(target))
    shared->lock.leave(exclusive);
  else
    ask_and_wait(target, rma::Request::unlock, exclusive);
}

void Window::ask_and_wait(int target, rma::Request kind, bool exclusive) {
  bool answered = false;
  rma::Header header;
  header.kind = kind;
  header.exclusive = exclusive;
  {
    std::lock_guard lock(engine().mutex());
    service_->ask(target, rma::make_request(header, {nullptr, 0}, 0, 0, 0),
                  [&](const rma::Message&) { answered = true; });
  }
  poll_until("the lock", target, [&] {
    service_->advance();
    return answered;
  });
}

int Window::lock(int target, bool exclusive, int assertion) {
  if (target == MPI_PROC_NULL) return MPI_SUCCESS;
  if (target < 0 || target >= size()) return MPI_ERR_RANK;
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

int Window::unlock(int target) {
  if (target == MPI_PROC_NULL) return MPI_SUCCESS;
  if (target < 0 || target >= size()) return MPI_ERR_RANK;
  Locked held;
  {
    std::lock_guard lock(engine().mutex());
    auto found = locked_.find(target);
    if (found == locked_.end() || locked_all_) return MPI_ERR_RMA_SYNC;
    held = found->second;
  }
  const int error = complete(target);
  if (held.held) release(target, held.exclusive);
  std::lock_guard lock(engine().mutex());
  locked_.erase(target);
  return error;
}

// Takes the locks of other targets only when an access needs them.
int Window::lock_all(int assertion) {
  {
    std::lock_guard lock(engine().mutex());
    if (locked_all_ || !locked_.empty() || started_) return MPI_ERR_RMA_SYNC;
    locked_all_ = true;
    locked_all_unchecked_ = assertion & MPI_MODE_NOCHECK;
    if (locked_all_unchecked_) return MPI_SUCCESS;
  }
  // The program may load from and store to its own window from now on.
  acquire_once(rank_);
  return MPI_SUCCESS;
}

int Window::unlock_all() {
  std::map<int, Locked> held;
  {
    std::lock_guard lock(engine().mutex());
    if (!locked_all_) return MPI_ERR_RMA_SYNC;
  }
  const int error = complete(-1);
  {
    std::lock_guard lock(engine().mutex());
    held = std::exchange(locked_, {});
    locked_all_ = false;
  }
  for (const auto& [target, one] : held) release(target, one.exclusive);
  return error;
}

int Window::flush(int target) {
  {
    std::lock_guard lock(engine().mutex());
    if (!locked_all_ && !(target < 0 ? !locked_.empty() : locked_.contains(target))) return MPI_ERR_RMA_SYNC;
  }
  return complete(target);
}

}  // namespace fairlead::mpi
