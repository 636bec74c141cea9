// SPDX-License-Identifier: Apache-2.0
//
// Driver calls that may wait for the program's streams. While one of these waits for something that this
// process has yet to do, such a call may wait for ever.
// - Some return only when a device has done all work of all streams: closing a mapping, loading a kernel. A
//   query does not tell whether it has: the stream may be one that synchronises with no other.
// - Those that make or free streams, events and memory return only when no other thread is in a launch that
//   waits for room in the queue of its stream (docs/design/driver-calls.md).
// Thread-safe. The state is in libfairlead-device.so alone, so that all libraries of the process share it.

#pragma once

#include <atomic>
#include <mutex>

namespace fairlead::device {

class WaitingCalls {
 public:
  // Called before a stream is made to wait for this process, and once it no longer waits. The first waits for
  // a call that is being made.
  static void forbid() { change(&forbidden_, 1); }
  static void permit() { change(&forbidden_, -1); }
  // Graphs that will wait exist. A thread of the library must not make such calls then, because the program
  // may launch one at any time; a thread of the program, which launches none meanwhile, must see before that
  // the device is idle.
  static void add_graph_wait() { change(&graph_waits_, 1); }
  static void remove_graph_wait() { change(&graph_waits_, -1); }
  static constinit thread_local bool in_thread_of_library;
  // Has the program several threads that call MPI? One may be in a launch then while others make progress.
  static std::atomic<bool> program_has_threads;

  // Held for the time of such a call, which must not be made if it is false.
  class Permission {
   public:
    Permission() : lock_(mutex_), given_(forbidden_ == 0 && !(graph_waits_ > 0 && in_thread_of_library)) {}
    explicit operator bool() const { return given_; }
    // May the call wait for work that was submitted before?
    bool may_wait() const { return given_ && graph_waits_ == 0; }
    // May the driver copy pageable memory? A thread of the program's may be in another such copy.
    bool may_copy_pageable() const { return forbidden_ == 0 && graph_waits_ == 0; }
    // The number of times that streams or graphs have begun to wait.
    unsigned period() const { return periods_; }
    // May progress make streams, events and memory? What it needs at least was made with the stream
    // (GpuStream::make()).
    bool may_make() const { return may_copy_pageable() || !(in_thread_of_library || program_has_threads); }

   private:
    std::lock_guard<std::mutex> lock_;
    bool given_;
  };

 private:
  static void change(int* count, int by) {
    std::lock_guard lock(mutex_);
    *count += by;
    periods_ += *count == 1 && by == 1;
  }
  static std::mutex mutex_;
  static int forbidden_, graph_waits_;
  static unsigned periods_;
};

}  // namespace fairlead::device
