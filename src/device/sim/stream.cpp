// SPDX-License-Identifier: Apache-2.0

#include "device/sim/stream.h"

#include <utility>

#include "base/library_thread.h"
#include "base/options.h"
#include "device/sim/error.h"

namespace fairlead::device::sim {

void WorkQueue::start() {
  start_necessary_thread("fairlead-sim", [self = shared_from_this()] { self->work_off(); }).detach();
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

void WorkQueue::start_late() {
  for (Work& work : std::exchange(late_, {})) enqueue(std::move(work));
}

void WorkQueue::submit_late(Work work) {
  std::lock_guard lock(mutex_);
  late_.push_back(std::move(work));
}

void WorkQueue::enqueue(Work work) {
  start_late();
  work_.push_back(std::move(work));
  ++submissions_;
  submitted_.notify_one();
}

bool WorkQueue::has_room(size_t work) const {
  return capture_ || work_.empty() ||
         work_.size() + work <= std::max<uint64_t>(options().sim_limits("queue"), 100);
}

void WorkQueue::wait_for_room(size_t work, std::mutex& meanwhile) {
  {
    std::lock_guard lock(mutex_);
    if (has_room(work)) return;
  }
  std::lock_guard waiting(meanwhile);
  std::unique_lock lock(mutex_);
  progressed_.wait(lock, [&] { return has_room(work); });
}

Error WorkQueue::submit(Work work, const std::function<void()>& joins) {
  std::unique_lock lock(mutex_);
  progressed_.wait(lock, [this] { return has_room(); });
  if (!capture_) {
    if (joins) joins();
    enqueue(std::move(work));
    return Error::none;
  }
  std::lock_guard capture_lock(capture_->mutex);
  if (capture_->invalid) return fail(Error::failed, "the stream's capture is invalid");
  capture_->nodes.push_back({std::move(work), lane_, std::move(last_nodes_)});
  last_nodes_ = {capture_->nodes.size() - 1};
  return Error::none;
}

MomentRef WorkQueue::mark() {
  auto moment = std::make_shared<Moment>();
  moment->queue = weak_from_this();
  std::lock_guard lock(mutex_);
  if (capture_) {
    moment->capture = capture_;
    moment->nodes = last_nodes_;
    return moment;
  }
  enqueue([this, moment] {  // the queue outlives its work
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
  return moment;
}

Error WorkQueue::wait_for(const MomentRef& moment) {
  std::lock_guard lock(mutex_);
  const CaptureRef& theirs = moment->capture;
  if (!theirs && !capture_) {
    enqueue([moment] {
      std::unique_lock lock(moment->mutex);
      moment->changed.wait(lock, [&] { return moment->done; });
      return Failure();
    });
    return Error::none;
  }
  if (!theirs || (capture_ && capture_ != theirs)) {
    invalidate_locked();
    return fail(Error::failed,
                "a captured stream cannot wait for an event outside its capture, which is "
                "invalid now");
  }
  std::lock_guard capture_lock(theirs->mutex);
  if (theirs->ended || theirs->invalid)
    return fail(Error::failed, "the event was recorded in a capture that has ended or is invalid");
  if (!capture_) {
    capture_ = theirs;
    lane_ = theirs->branches.size();
    theirs->branches.push_back(weak_from_this());
  }
  last_nodes_.insert(last_nodes_.end(), moment->nodes.begin(), moment->nodes.end());
  return Error::none;
}

Capture WorkQueue::capture() {
  std::lock_guard lock(mutex_);
  if (!capture_) return {};
  std::lock_guard capture_lock(capture_->mutex);
  if (capture_->invalid) return {Capture::State::invalidated, 0};
  return {Capture::State::active, capture_->id};
}

Error WorkQueue::begin_capture(CaptureMode mode) {
  static std::atomic<uint64_t> captures{0};
  std::lock_guard lock(mutex_);
  if (capture_) return fail(Error::failed, "the stream is being captured already");
  capture_ = std::make_shared<CaptureSequence>(++captures, mode);
  capture_->branches.push_back(weak_from_this());
  lane_ = 0;
  return Error::none;
}

bool WorkQueue::captured_against(CaptureMode mode) {
  std::lock_guard lock(mutex_);
  return capture_ && capture_->conflicts_with(mode);
}

Error WorkQueue::keep_with_graph(std::shared_ptr<const void> object) {
  std::lock_guard lock(mutex_);
  if (!capture_) return fail(Error::invalid_value, "the stream is not being captured");
  std::lock_guard capture_lock(capture_->mutex);
  capture_->kept.push_back(std::move(object));
  return Error::none;
}

Error WorkQueue::end_capture(std::vector<Node>* nodes, KeptObjects* kept, size_t* branches) {
  CaptureRef ended;
  std::vector<size_t> last;
  {
    std::lock_guard lock(mutex_);
    if (!capture_ || lane_ != 0)
      return fail(Error::failed, "no capture began in this stream, or it has ended");
    ended = capture_;
    last = last_nodes_;
  }
  bool valid = false, joined = false;
  std::vector<std::weak_ptr<WorkQueue>> streams;
  {
    std::lock_guard capture_lock(ended->mutex);
    ended->end();
    valid = !ended->invalid;
    joined = valid && ended->all_precede(last);
    streams = ended->branches;
    *kept = std::move(ended->kept);
    if (joined) *nodes = std::move(ended->nodes);
    *branches = streams.size();
  }
  for (auto& stream : streams)
    if (QueueRef queue = stream.lock()) queue->leave_capture();
  if (!valid) return fail(Error::failed, "the capture was invalidated");
  return joined ? Error::none : fail(Error::failed, "a stream joined the capture and was not waited for");
}

void WorkQueue::leave_capture() {
  std::lock_guard lock(mutex_);
  capture_ = nullptr;
  last_nodes_.clear();
}

bool WorkQueue::invalidate() {
  std::lock_guard lock(mutex_);
  return invalidate_locked();
}

bool WorkQueue::invalidate_locked() {
  if (!capture_) return false;
  std::lock_guard capture_lock(capture_->mutex);
  return capture_->invalid = true;
}

Error WorkQueue::report(std::unique_lock<std::mutex>& lock) {
  Failure failure = std::move(failure_);
  failure_ = nullptr;
  lock.unlock();
  return failure ? fail(Error::failed, "%s", failure->c_str()) : Error::none;
}

static Error refuse_query() {
  return fail(Error::failed,
              "a captured stream or event cannot be queried or synchronised; the capture is "
              "invalid now");
}

Error WorkQueue::drain() {
  std::unique_lock lock(mutex_);
  if (invalidate_locked()) return refuse_query();
  start_late();
  progressed_.wait(lock, [this, target = submissions_] { return completions_ >= target; });
  return report(lock);
}

Error WorkQueue::poll() {
  std::unique_lock lock(mutex_);
  if (invalidate_locked()) return refuse_query();
  start_late();
  return completions_ < submissions_ ? Error::not_ready : report(lock);
}

// Late work takes no longer than the call that asks.
bool WorkQueue::idle() {
  std::unique_lock lock(mutex_);
  if (!late_.empty()) {
    start_late();
    progressed_.wait(lock, [this, target = submissions_] { return completions_ >= target; });
  }
  return completions_ == submissions_;
}

void WorkQueue::wait_idle() {
  std::unique_lock lock(mutex_);
  start_late();
  progressed_.wait(lock, [this, target = submissions_] { return completions_ >= target; });
}

void WorkQueue::reported(const Failure& failure) {
  std::lock_guard lock(mutex_);
  if (failure_ == failure) failure_ = nullptr;
}

bool WorkQueue::has_failed() {
  std::lock_guard lock(mutex_);
  return failure_ != nullptr;
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
  if (last->capture) {
    std::lock_guard lock(last->capture->mutex);
    last->capture->invalid = true;
    return refuse_query();
  }
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
