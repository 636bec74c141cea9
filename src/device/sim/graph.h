// SPDX-License-Identifier: Apache-2.0
//
// Graphs of the simulated GPU. A launch executes the first branch on the stream that it is submitted to, and
// every other branch on a stream of the graph's own, so that branches which do not depend on each other
// overlap. Each launch repeats the captured work: it reads host memory again, and fails if memory was freed.
//
// Thread-safe.

#pragma once

#include <mutex>
#include <vector>

#include "device/sim/stream.h"

namespace fairlead::device::sim {

class CapturedGraph {
 public:
  // Throws std::system_error if it cannot start the streams of its own.
  CapturedGraph(int device, std::vector<Node> nodes, KeptObjects kept, size_t branches);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;

  const int device;
  Error launch(const QueueRef& queue);
  // That a launch submits to the queue, at most: nodes with a mark each, what precedes and what follows.
  size_t work() const { return 2 * (nodes_.size() + other_branches_.size()) + 5; }

 private:
  const std::vector<Node> nodes_;
  const std::shared_ptr<const KeptObjects> kept_;  // launches keep them, too
  std::vector<QueueRef> other_branches_;
  std::mutex mutex_;
  MomentRef last_;  // the end of the last launch: launches of one graph do not overlap
};

}  // namespace fairlead::device::sim
