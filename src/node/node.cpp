// SPDX-License-Identifier: Apache-2.0

#include "node/node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/memory/page_size.h"

namespace fairlead::node {
namespace {

constexpr size_t header_bytes = 4096;

size_t segment_bytes(int ranks) {
  const size_t used =
      header_bytes + sizeof(RankBlock) * ranks + sizeof(PathDecision) * ranks * ranks * devices_per_rank;
  return whole_pages(used);
}

}  // namespace

const char* to_string(Path path) {
  switch (path) {
    case Path::unknown:
      return "unused";
    case Path::peer:
      return "peer";
    case Path::staged:
      return "staged";
  }
  return "?";
}

const char* to_string(Reason reason) {
  switch (reason) {
    case Reason::none:
      return "";
    case Reason::switched_off:
      return "FAIRLEAD_IPC is off";
    case Reason::not_exportable:
      return "this memory cannot be shared between processes";
    case Reason::no_context:
      return "the receiver uses no GPU";
    case Reason::import_failed:
      return "mapping the sender's memory failed";
    case Reason::wrong_bytes:
      return "mapped memory shows wrong bytes";
    case Reason::copy_failed:
      return "a peer copy failed";
    case Reason::no_kernel:
      return "no kernel can read its layout";
    case Reason::no_memory:
      return "its sender has no host memory to stage it in";
    case Reason::damaged:
      return "its rendezvous record is damaged";
    case Reason::abandoned:
      return "its communicator was revoked";
  }
  return "?";
}

SharedMemory Node::create_segment(const Nonce& nonce, int ranks) {
  SharedMemory segment = SharedMemory::create(segment_bytes(ranks));
  if (segment) {
    auto* header = reinterpret_cast<SegmentHeader*>(segment.data());
    header->nonce = nonce;
    header->ranks = ranks;
    header->memory_end.store(segment_bytes(ranks));
  }
  return segment;
}

SharedMemory Node::open_segment(const Nonce& nonce, int ranks, int file) {
  SharedMemory segment = SharedMemory::adopt(file, segment_bytes(ranks));
  // In another PID namespace the same numbers may name another process's memory.
  if (segment) {
    auto* header = reinterpret_cast<SegmentHeader*>(segment.data());
    if (header->nonce != nonce || header->ranks != ranks) return {};
  }
  return segment;
}

Node::Node(SharedMemory segment, const Nonce& nonce, std::vector<int> world_ranks, int my_rank,
           Introduction* met)
    : segment_(std::move(segment)),
      nonce_(nonce),
      world_ranks_(std::move(world_ranks)),
      rank_(my_rank),
      memory_(segment_.fd(), header().memory_end, segment_bytes(size())) {
  mine().world_rank = world_ranks_[my_rank];
  mine().pid = getpid();
  files_ = std::make_unique<FdSocket>(&block(0), size(), rank_, met);
}

RankBlock& Node::block(int node_rank) const {
  return *reinterpret_cast<RankBlock*>(segment_.data() + header_bytes + sizeof(RankBlock) * node_rank);
}

PathDecision& Node::decision(int from, int device, int to) const {
  auto* table = reinterpret_cast<PathDecision*>(segment_.data() + header_bytes +
                                                sizeof(RankBlock) * world_ranks_.size());
  return table[(from * size() + to) * devices_per_rank + device];
}

void Node::decide(int from, int device, int to, Path path, Reason reason, const char* detail) const {
  PathDecision& decision = this->decision(from, device, to);
  decision.reason = reason;
  decision.path = path;
  if (path == Path::staged && reason != Reason::switched_off && reason != Reason::no_context)
    log_line(LogLevel::info,
             "device messages from rank %d (device %d) to rank %d are staged through host memory: %s%s%s",
             world_rank(from), device, world_rank(to), to_string(reason), *detail ? ": " : "", detail);
}

std::string Node::describe_paths() const {
  std::string text;
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      std::vector<std::pair<int, std::string>> found;  // for each device that was used
      for (int device = 0; device < devices_per_rank; ++device) {
        const PathDecision& decision = this->decision(from, device, to);
        if (decision.path == Path::unknown) continue;
        std::string path = to_string(decision.path.load());
        if (decision.reason != Reason::none)
          path += std::string(" (") + to_string(decision.reason.load()) + ")";
        found.emplace_back(device, path);
      }
      bool alike = std::all_of(found.begin(), found.end(),
                               [&](const auto& entry) { return entry.second == found.front().second; });
      if (alike && !found.empty()) found.resize(1);
      for (const auto& [device, path] : found)
        text += (text.empty() ? "" : ", ") + std::to_string(world_rank(from)) +
                (alike ? "" : " device " + std::to_string(device)) + "->" + std::to_string(world_rank(to)) +
                " " + path;
    }
  }
  return text;
}

}  // namespace fairlead::node
