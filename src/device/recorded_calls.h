// SPDX-License-Identifier: Apache-2.0
//
// Calls that a program repeats, recorded as graphs: to launch a graph takes less time of the CPU than to
// launch what it consists of. Thread-safe.

#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/log.h"
#include "device/blocking_driver_calls.h"
#include "device/unused.h"

namespace fairlead::device {

// What `submit` submits to the stream, in which nothing runs, as a graph. Null: it cannot be recorded.
inline Graph record(Stream stream, const std::function<Error(Stream)>& submit) {
  Runtime* gpu = BlockingDriverCalls::of_program();
  Graph graph = nullptr;
  Error error = gpu->begin_capture(stream, CaptureMode::relaxed);
  if (error == Error::none) {
    error = submit(stream);
    const Error end = gpu->end_capture(stream, &graph);
    if (error == Error::none) error = end;
  }
  if (error == Error::none) return graph;
  log_line(LogLevel::debug, "work of streams is not recorded in graphs: %s %s", to_string(error),
           gpu->error_text());
  if (graph) gpu->destroy_graph(graph);
  return nullptr;
}

template <class Call>
class RecordedCalls {
 public:
  RecordedCalls() = default;
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;
  ~RecordedCalls() {
    end_unused([all = std::move(all_)](Runtime& driver) {
      for (const Recorded& one : all)
        if (one.graph) driver.destroy_graph(one.graph);
    });
  }

  // In a call of the program's, which may wait for the driver. Null: not yet, or it cannot be recorded.
  // `recording`: as for record(); null: none is recorded any more.
  Graph find(const Call& call, Stream recording, const std::function<Error(Stream)>& submit) {
    std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(all_, call, &Recorded::call);
    if (found == all_.end()) {
      note(call);
      return nullptr;
    }
    if (!found->graph && recording && !failed_) {
      found->graph = record(recording, submit);
      failed_ = !found->graph;
    }
    return found->graph;
  }
  // A stream may use the graphs for ever.
  void leave() { all_.clear(); }

 private:
  struct Recorded {
    Call call;
    Graph graph = nullptr;
  };
  // Graphs are kept, because to end one in use may take long.
  void note(const Call& call) {
    constexpr size_t at_most = 64;
    if (all_.size() < at_most) {
      all_.push_back({call});
      return;
    }
    for (size_t i = 1; i <= at_most; ++i)
      if (Recorded& one = all_[(forgotten_ + i) % at_most]; !one.graph) {
        forgotten_ = (forgotten_ + i) % at_most;
        one.call = call;
        break;
      }
  }

  std::mutex mutex_;
  std::vector<Recorded> all_;
  size_t forgotten_ = 0;
  bool failed_ = false;
};

}  // namespace fairlead::device
