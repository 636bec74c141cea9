// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of the simulated GPU. A stream is a queue and a thread that works it off in order; the
// thread sleeps while there is nothing to do. Nothing that is submitted runs in the submitting thread.
//
// Failures are asynchronous, as on a GPU. Work that fails leaves its words on the stream; later work runs
// all the same. The first of drain(), poll() or a query of an event recorded behind the failure reports it
// and takes it off the stream. Every event recorded between the failure and that report keeps reporting it,
// so that those who share a stream, each with an event of his own, do not take each other's failures away.
//
// Thread-safe.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/runtime.h"

namespace fairlead::device::sim {

// The words of a failure; null: there is none.
using Failure = std::shared_ptr<const std::string>;

class WorkQueue;

// One record of an event: done once its stream got there.
struct Moment {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Failure failure;
  std::weak_ptr<WorkQueue> queue;  // where the failure lies until it is reported
};
using MomentRef = std::shared_ptr<Moment>;

class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  using Work = std::function<Failure()>;

  WorkQueue(int device, StreamKind kind) : device(device), kind(kind) {}
  void start();  // the thread; it lives until close() and holds on to the queue
  void close();  // work already submitted is still done

  void submit(Work work);
  void record(const MomentRef& moment);
  void wait_for(const MomentRef& moment);

  Error drain();  // waits for all work submitted so far
  Error poll();
  void wait_idle();  // the same as drain(), reports nothing
  bool idle();
  void reported(const Failure& failure);  // takes it off

  const int device;
  const StreamKind kind;

 private:
  void work_off();
  Error report(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable submitted_, progressed_;
  std::deque<Work> work_;
  uint64_t submissions_ = 0, completions_ = 0;
  Failure failure_;
  bool closed_ = false;
};
using QueueRef = std::shared_ptr<WorkQueue>;

// The last record of an event, if it was ever recorded.
class RecordedEvent {
 public:
  MomentRef moment();
  void record(const MomentRef& moment);
  Error query();

 private:
  std::mutex mutex_;
  MomentRef moment_;
};

// Handles that are never reused, so that one used after its end is refused.
template <class Handle, class Object>
class HandleTable {
 public:
  Handle add(std::shared_ptr<Object> object) {
    std::unique_lock lock(mutex_);
    objects_[++last_] = std::move(object);
    return reinterpret_cast<Handle>(last_);
  }
  std::shared_ptr<Object> find(Handle handle) const {
    std::shared_lock lock(mutex_);
    auto entry = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return entry == objects_.end() ? nullptr : entry->second;
  }
  std::shared_ptr<Object> remove(Handle handle) {
    std::unique_lock lock(mutex_);
    auto entry = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (entry == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(entry->second);
    objects_.erase(entry);
    return object;
  }
  std::vector<std::shared_ptr<Object>> all() const {
    std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<Object>> list;
    for (const auto& [handle, object] : objects_) list.push_back(object);
    return list;
  }

 private:
  mutable std::shared_mutex mutex_;
  uintptr_t last_ = 0;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace fairlead::device::sim
