// SPDX-License-Identifier: Apache-2.0
//
// The only way to the calls of a driver that may wait for the program's streams (class Runtime). While one of
// these waits for something that this process has yet to do, such a call may never return.
// - Some return only when a device has done all work of all streams: closing a mapping, loading a kernel. A
//   query does not tell whether it has: the stream may be one that synchronises with no other.
// - Those that make or free streams, events and memory return only when no other thread is in a launch that
//   waits for room in the queue of its stream (docs/design/driver-calls.md).
// Thread-safe. The state is in libfairlead-device.so alone, so that all libraries of the process share it.
//
//   const BlockingDriverCalls calls;               // no stream begins to wait while this exists
//   if (!calls.may_allocate()) return Attempt::later;
//   Error error = calls->allocate(device, bytes, &address);

#pragma once

#include <atomic>
#include <cassert>
#include <mutex>

#include "device/runtime.h"

namespace fairlead::device {

class BlockingDriverCalls {
 public:
  BlockingDriverCalls()
      : lock_(mutex_), given_(excluded_ == 0 && !(graph_waits_ > 0 && in_thread_of_library)) {}

  // May calls be made that wait until all streams are idle, once the device was seen to be idle?
  explicit operator bool() const { return asked(given_); }
  // May the call wait for work that was submitted before?
  bool may_wait() const { return asked(given_ && graph_waits_ == 0); }
  // May the driver copy pageable memory? A thread of the program's may be in another such copy.
  bool may_copy_pageable() const { return asked(excluded_ == 0 && graph_waits_ == 0); }
  // May progress make streams, events and memory? The minimum that it needs was made together with the
  // stream (GpuStream::make()).
  bool may_allocate() const {
    return may_copy_pageable() || asked(!(in_thread_of_library || program_has_threads));
  }
  // For the calls that were permitted. The caller has asked one of the functions above.
  Runtime* operator->() const {
    assert(permitted_);
    return whole_runtime();
  }
  Runtime& operator*() const { return *operator->(); }
  // The number of times that streams or graphs have begun to wait.
  unsigned period() const { return periods_; }

  // In a call of the program's that makes or ends something, as its own calls of the driver would, without a
  // lock that progress needs: it may wait, and progress goes on meanwhile.
  static Runtime* of_program() {
    assert(!in_thread_of_library);
    return whole_runtime();
  }

  // For what ended with its context, and for handles of the program's streams: the call does not reach the
  // driver.
  static Runtime* of_what_is_gone() { return whole_runtime(); }
  // For calls that cannot be avoided: they are made although they may wait.
  static Runtime* at_risk() { return whole_runtime(); }

  // Called before a stream is made to wait for this process, and once it no longer waits. The first waits for
  // a call that is being made.
  static void exclude() { change(&excluded_, 1); }
  static void allow() { change(&excluded_, -1); }
  // Graphs that will wait exist. A thread of the library must not make such calls then, because the program
  // may launch one at any time; a thread of the program, which launches none meanwhile, must see before that
  // the device is idle.
  static void add_graph_wait() { change(&graph_waits_, 1); }
  static void remove_graph_wait() { change(&graph_waits_, -1); }
  static constinit thread_local bool in_thread_of_library;
  // Has the program several threads that call MPI? One may be in a launch then while others make progress.
  static std::atomic<bool> program_has_threads;

 private:
  bool asked(bool answer) const {
    permitted_ |= answer;
    return answer;
  }
  static void change(int* count, int by) {
    std::lock_guard lock(mutex_);
    *count += by;
    periods_ += *count == 1 && by == 1;
  }
  static std::mutex mutex_;
  static int excluded_, graph_waits_;
  static unsigned periods_;

  std::lock_guard<std::mutex> lock_;
  bool given_;
  mutable bool permitted_ = false;
};

}  // namespace fairlead::device
