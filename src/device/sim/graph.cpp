// SPDX-License-Identifier: Apache-2.0

#include "device/sim/graph.h"

#include <utility>

#include "device/sim/error.h"

namespace fairlead::device::sim {

CapturedGraph::CapturedGraph(int device, std::vector<Node> nodes, KeptObjects kept, size_t branches)
    : device(device), nodes_(std::move(nodes)), kept_(std::make_shared<const KeptObjects>(std::move(kept))) {
  try {
    while (other_branches_.size() + 1 < branches) {
      auto queue = std::make_shared<WorkQueue>(device, StreamKind::library);
      queue->start();
      other_branches_.push_back(std::move(queue));
    }
  } catch (...) {
    for (const QueueRef& queue : other_branches_) queue->close();
    throw;
  }
}

// What was submitted completes.
CapturedGraph::~CapturedGraph() {
  for (const QueueRef& queue : other_branches_) queue->close();
}

Error CapturedGraph::launch(const QueueRef& queue) {
  if (queue->capture().state != Capture::State::none)
    return fail(Error::not_supported, "the simulated GPU does not capture the launch of a graph");
  std::lock_guard lock(mutex_);
  if (last_) queue->wait_for(last_);
  const MomentRef start = queue->mark();
  for (const QueueRef& branch : other_branches_) branch->wait_for(start);
  std::vector<MomentRef> done;
  for (const Node& node : nodes_) {
    const QueueRef& branch = node.branch == 0 ? queue : other_branches_[node.branch - 1];
    for (size_t earlier : node.after)
      if (nodes_[earlier].branch != node.branch) branch->wait_for(done[earlier]);
    branch->submit(node.work);
    done.push_back(branch->mark());
  }
  for (const QueueRef& branch : other_branches_) {
    const MomentRef end = branch->mark();
    queue->wait_for(end);
    queue->submit([branch, end] {  // the launch fails on the stream that it was submitted to
      if (end->failure) branch->reported(end->failure);
      return end->failure;
    });
  }
  if (!kept_->empty()) queue->submit([kept = kept_] { return Failure(); });
  last_ = queue->mark();
  return Error::none;
}

}  // namespace fairlead::device::sim
