// SPDX-License-Identifier: Apache-2.0

#include "device/sim/stream.h"

#include <pthread.h>
#include <signal.h>

#include <thread>

#include "device/sim/error.h"

namespace fairlead::device::sim {

void WorkQueue::start() {
  // The application's threads must handle the application's signals, so this thread blocks all of them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([self = shared_from_this()] { self->work_off(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void WorkQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  submitted_.notify_one();
}

void WorkQueue::work_off() {
  std::unique_lock lock(mutex_);
  for (;;) {
    submitted_.wait(lock, [this] { return closed_ || !work_.empty(); });
    if (work_.empty()) return;
    {
      Work work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      Failure failure = work();
      work = nullptr;  // releases the memory it used before any thread sees its completion
      lock.lock();
      if (failure) failure_ = failure;
    }
    ++completions_;
    progressed_.notify_all();
  }
}

void WorkQueue::submit(Work work) {
  std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  ++submissions_;
  submitted_.notify_one();
}

void WorkQueue::record(const MomentRef& moment) {
  submit([this, moment] {  // the queue outlives its work
    Failure failure;
    {
      std::lock_guard lock(mutex_);
      failure = failure_;
    }
    std::lock_guard lock(moment->mutex);
    moment->failure = failure;
    moment->done = true;
    moment->changed.notify_all();
    return Failure();
  });
}

void WorkQueue::wait_for(const MomentRef& moment) {
  submit([moment] {
    std::unique_lock lock(moment->mutex);
    moment->changed.wait(lock, [&] { return moment->done; });
    return Failure();
  });
}

Error WorkQueue::report(std::unique_lock<std::mutex>& lock) {
  Failure failure = std::move(failure_);
  failure_ = nullptr;
  lock.unlock();
  return failure ? fail(Error::failed, "%s", failure->c_str()) : Error::none;
}

Error WorkQueue::drain() {
  std::unique_lock lock(mutex_);
  progressed_.wait(lock, [this, target = submissions_] { return completions_ >= target; });
  return report(lock);
}

Error WorkQueue::poll() {
  std::unique_lock lock(mutex_);
  return completions_ < submissions_ ? Error::not_ready : report(lock);
}

bool WorkQueue::idle() {
  std::lock_guard lock(mutex_);
  return completions_ == submissions_;
}

void WorkQueue::wait_idle() {
  std::unique_lock lock(mutex_);
  progressed_.wait(lock, [this, target = submissions_] { return completions_ >= target; });
}

void WorkQueue::reported(const Failure& failure) {
  std::lock_guard lock(mutex_);
  if (failure_ == failure) failure_ = nullptr;
}

MomentRef RecordedEvent::moment() {
  std::lock_guard lock(mutex_);
  return moment_;
}

void RecordedEvent::record(const MomentRef& moment) {
  std::lock_guard lock(mutex_);
  moment_ = moment;
}

Error RecordedEvent::query() {
  MomentRef last = moment();
  if (!last) return Error::none;
  Failure failure;
  QueueRef queue;
  {
    std::lock_guard lock(last->mutex);
    if (!last->done) return Error::not_ready;
    failure = last->failure;
    queue = last->queue.lock();
  }
  if (!failure) return Error::none;
  if (queue) queue->reported(failure);
  return fail(Error::failed, "%s", failure->c_str());
}

}  // namespace fairlead::device::sim
