// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of the simulated GPU. A stream is a queue and a thread that executes it in order; the
// thread sleeps while the queue is empty. The submitting thread never executes work itself.
//
// Failures are asynchronous, as on a GPU. Work that fails stores its error message on the stream; later work
// executes regardless. The first drain(), poll() or query of an event recorded after the failure reports it
// and removes it from the stream. Every event recorded between the failure and that report keeps reporting
// it, so that threads that share a stream, each with its own event, do not consume each other's failures.
//
// Thread-safe.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "device/runtime.h"
#include "device/sim/capture.h"
#include "device/sim/error.h"

namespace fairlead::device::sim {

// One recording of an event: done once its stream has reached it. In a captured stream it is never done, and
// stands for the nodes that precede it.
struct Moment {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Failure failure;
  std::weak_ptr<WorkQueue> queue;  // the stream that holds the failure until it is reported
  CaptureRef capture;
  std::vector<size_t> nodes;
};
using MomentRef = std::shared_ptr<Moment>;

class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  WorkQueue(int device, StreamKind kind) : device(device), kind(kind) {}
  void start();  // starts the thread, which holds a reference to the queue until close()
  void close();  // completes the work already submitted

  // While the stream is being captured, these three extend the graph instead.
  // Waits while the queue is full. Calls joins() when the work joins the queue, but not in a capture.
  Error submit(Work work, const std::function<void()>& joins = nullptr);
  // The work stays undone until anybody asks about the stream or submits more. The stream is idle.
  void submit_late(Work work);
  MomentRef mark();  // done once all work submitted so far is
  Error wait_for(const MomentRef& moment);

  Capture capture();
  Error begin_capture(CaptureMode mode);
  Error keep_with_graph(std::shared_ptr<const void> object);
  // Hands over what was captured; the first branch is this stream.
  Error end_capture(std::vector<Node>* nodes, KeptObjects* kept, size_t* branches);
  bool invalidate();                        // returns whether the stream is being captured
  bool captured_against(CaptureMode mode);  // does a call of a thread in this mode conflict with the capture?

  Error drain();     // waits for all work submitted so far; invalidates a capture
  Error poll();      // likewise
  void wait_idle();  // like drain(), but reports no failure
  bool idle();
  // For so much work. Holds `meanwhile` if it has to wait.
  void wait_for_room(size_t work, std::mutex& meanwhile);
  void reported(const Failure& failure);  // removes the failure
  bool has_failed();                      // and nobody has been told yet

  const int device;
  const StreamKind kind;
  std::atomic<bool> ended{false};  // by a reset of the device

 private:
  bool has_room(size_t work = 1) const;
  void work_off();
  void start_late();
  void enqueue(Work work);
  bool invalidate_locked();
  void leave_capture();
  Error report(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable submitted_, progressed_;
  std::deque<Work> work_, late_;
  uint64_t submissions_ = 0, completions_ = 0;
  Failure failure_;
  bool closed_ = false;
  CaptureRef capture_;
  size_t lane_ = 0;
  std::vector<size_t> last_nodes_;  // what the next node follows
};
using QueueRef = std::shared_ptr<WorkQueue>;

// The most recent recording of an event, if there is one.
class RecordedEvent {
 public:
  explicit RecordedEvent(int device) : device(device) {}
  const int device;
  MomentRef moment();
  void record(const MomentRef& moment);
  Error query();

 private:
  std::mutex mutex_;
  MomentRef moment_;
};

// Handles are never reused, so that the use of a destroyed one is detected. The use of one that ended with a
// reset of its device ends the process.
template <class Handle, class Object>
class HandleTable {
 public:
  explicit HandleTable(uintptr_t reserved = 0) : last_(reserved) {}

  Handle add(std::shared_ptr<Object> object) {
    std::unique_lock lock(mutex_);
    objects_[++last_] = std::move(object);
    return reinterpret_cast<Handle>(last_);
  }
  std::shared_ptr<Object> find(Handle handle) const {
    std::shared_lock lock(mutex_);
    auto entry = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (entry == objects_.end()) return nullptr;
    if (!entry->second) die("handle %zu is used, which ended with a reset of its device", entry->first);
    return entry->second;
  }
  template <class Wanted>
  Handle handle_of(Wanted wanted) const {
    std::shared_lock lock(mutex_);
    for (const auto& [handle, object] : objects_)
      if (object && wanted(*object)) return reinterpret_cast<Handle>(handle);
    return nullptr;
  }
  // Forgets the handle if a reset has ended it.
  bool forget_ended(Handle handle) {
    std::unique_lock lock(mutex_);
    auto entry = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (entry == objects_.end() || entry->second) return false;
    objects_.erase(entry);
    return true;
  }
  void end_all_of(int device) {
    std::unique_lock lock(mutex_);
    for (auto& [handle, object] : objects_)
      if (object && object->device == device) object = nullptr;
  }
  std::shared_ptr<Object> remove(Handle handle) {
    std::unique_lock lock(mutex_);
    auto entry = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (entry == objects_.end() || !entry->second) return nullptr;
    std::shared_ptr<Object> object = std::move(entry->second);
    objects_.erase(entry);
    return object;
  }
  std::vector<std::shared_ptr<Object>> all() const {
    std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<Object>> list;
    for (const auto& [handle, object] : objects_)
      if (object) list.push_back(object);
    return list;
  }

 private:
  mutable std::shared_mutex mutex_;
  uintptr_t last_;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace fairlead::device::sim
