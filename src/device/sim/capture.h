// SPDX-License-Identifier: Apache-2.0
//
// Work of the simulated GPU, and the capture of streams into a graph. A captured stream executes nothing: its
// work becomes nodes. Each stream of a capture is a branch; the first branch is the stream that began. A node
// follows its predecessor in its branch, and the nodes of other branches whose events the branch has waited
// for.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/runtime.h"

namespace fairlead::device::sim {

// The message of a failure; null: no failure.
using Failure = std::shared_ptr<const std::string>;
using Work = std::function<Failure()>;

class WorkQueue;

struct Node {
  Work work;
  size_t branch;
  std::vector<size_t> after;  // indices of earlier nodes
};

// What a graph keeps for its owner (Runtime::keep_with_graph()).
using KeptObjects = std::vector<std::shared_ptr<const void>>;

struct CaptureSequence {
  static inline std::atomic<int> active{0};  // how many have not ended

  CaptureSequence(uint64_t id, CaptureMode mode) : id(id), mode(mode) { ++active; }
  ~CaptureSequence() { end(); }
  CaptureSequence(const CaptureSequence&) = delete;
  void end() {
    if (!std::exchange(ended, true)) --active;
  }

  // Of the calling thread, if it has this mode.
  bool conflicts_with(CaptureMode of_thread) const {
    if (mode == CaptureMode::relaxed || of_thread == CaptureMode::relaxed) return false;
    return thread == std::this_thread::get_id() ||
           (mode == CaptureMode::global && of_thread == CaptureMode::global);
  }

  const uint64_t id;
  const CaptureMode mode;
  const std::thread::id thread = std::this_thread::get_id();  // where it began
  std::mutex mutex;  // guards the members below; taken after a queue's
  bool invalid = false, ended = false;
  std::vector<Node> nodes;
  KeptObjects kept;
  std::vector<std::weak_ptr<WorkQueue>> branches;

  // Returns whether all nodes precede one of these.
  bool all_precede(const std::vector<size_t>& last) const {
    std::vector<bool> found(nodes.size());
    for (size_t node : last) found[node] = true;
    for (size_t node = nodes.size(); node-- > 0;) {
      if (!found[node]) return false;
      for (size_t earlier : nodes[node].after) found[earlier] = true;
    }
    return true;
  }
};
using CaptureRef = std::shared_ptr<CaptureSequence>;

}  // namespace fairlead::device::sim
