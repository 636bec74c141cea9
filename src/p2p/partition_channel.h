// SPDX-License-Identifier: Apache-2.0
//
// A partitioned message whose sender writes the partitions to the receiver's buffer: GPU streams or CPUs of
// the two ranks signal each other by words in memory of the node, and nothing is matched again. The receiver
// offers its buffer under the key of the message (src/mpi/p2p/match_order.h); the sender looks for the offer
// when it starts a round, and joins it.
//
// Rounds before that travel through the host MPI. `rounds` says which: the receiver stores the number of each
// round that it starts so, and the sender, when it joins, that of the first one that does not, which neither
// has started. Both change it by compare-and-swap, so they agree, and neither waits for the other. A sender
// that has no such memory, or no key, never joins, and the receiver need not know why.
//
// In each further round:
//
//   receiver: `open` = 1      the buffer may be written
//   sender:   `open` = 0      when it has seen that, and before it writes
//             `arrived[p]` = 1, or 2: the partition could not be read
//   receiver: `arrived[p]` = 0    when it has seen all
//
// Short messages are handed over by kernels instead (kernels/handover/handover.h), which neither CPU has to
// wait for: in place of `open` there is a word for each share, in memory of the receiver's GPU, and the
// sender clears `sent` when it has seen it. The offer comes with memory for that, unless kernels of the
// program mark or await partitions, which may leave no room for others; the sender says by `rounds` whether
// it is used.
//
// Each word changes between the same values in every round, so a graph may replay what a stream does with
// them.
//
// Belongs to one thread at a time (the engine's lock), but for the words, what tells addresses, and the
// destructors and use(), which belong to the program's calls on its request: of those that mark partitions in
// several threads at once only in_graph_of().

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/recorded_calls.h"
#include "kernels/handover/handover.h"
#include "node/node.h"
#include "p2p/posted_buffer.h"

namespace fairlead::p2p {

constexpr int channels_per_rank = 64, channel_partitions = 128;

// In memory of the receiver's.
struct alignas(cache_line) PartitionChannel {
  // In `rounds`, whose other bits are the number of a round.
  static constexpr uint64_t joined = 1, by_kernels = 2, not_by_kernels = 4;
  static constexpr int number_shift = 3;
  std::atomic<uint64_t> rounds;
  node::RemoteMemory memory;
  node::RemoteMemory area;       // for kernels that hand partitions over
  device::DeviceInfo owner;      // of both, if there is an area; else without a name
  std::atomic<uint32_t> broken;  // a GPU has failed in a hand-over: nothing is handed over any more
  std::atomic<uint32_t> held;    // by the sender, from its join until its streams have passed the last round
  uint64_t partition_bytes;
  int32_t partitions, device;
  alignas(cache_line) uint32_t open;
  alignas(cache_line) uint32_t sent;
  alignas(cache_line) uint32_t arrived[channel_partitions];
};

// Values of `arrived`.
constexpr uint32_t partition_arrived = 1, partition_failed = 2;

struct PartitionShape {
  int partitions;
  uint64_t partition_bytes;  // without gaps
  bool by_kernels;           // kernels may hand them over
};

// Do what may not be possible any more when streams wait: make and page-lock this rank's memory for channels;
// and, when others have done that, page-lock theirs and find out where this device may write.
void open_channels(node::Node& node);
void open_channels_to(node::Node& node, const std::vector<int>& node_ranks, int device);
// Frees what freed requests have left. What graphs have used: if the devices that may have launched them are
// idle, which only a call of the program's asks, without locks, because the driver may make it wait, and a
// capture may end. `at_end`: as MPI is over, whatever runs.
enum class AskDevices { no, yes, at_end };
void free_unused_channels(AskDevices ask);

// How long streams may use what belongs to a request. After the request is freed, the program launches no
// graph that was captured with it, but those launched before may still be under way.
class StreamUse {
 public:
  // Until the function, which any thread may call, returns true; none: it has ended.
  void until(std::function<bool()> ended) { ended_ = std::move(ended); }
  void in_graph_of(int device) {
    std::atomic_ref(graph_devices_).fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
  }
  // What streams launch again and again.
  device::RecordedCalls<kernels::HandOver>& recorded() { return *recorded_; }

  // After the request has been freed:
  bool is_over() const { return (!ended_ || ended_()) && graph_devices_ == 0; }
  uint64_t graph_devices() const { return graph_devices_; }
  void end_graphs_of(uint64_t devices) { graph_devices_ &= ~devices; }

 private:
  std::function<bool()> ended_;
  uint64_t graph_devices_ = 0;  // a bit for each
  std::unique_ptr<device::RecordedCalls<kernels::HandOver>> recorded_ =
      std::make_unique<device::RecordedCalls<kernels::HandOver>>();
};
static_assert(node::devices_per_rank <= 64);

// The receiver's side.
class PartitionOffer {
 public:
  // Null if the sender, a node rank, cannot map the memory, or if no more buffers can be offered. `rounds`:
  // that have started.
  static std::unique_ptr<PartitionOffer> post(node::Node& node, int sender, const MessageKey& key,
                                              const device::Allocation& allocation, void* address,
                                              const PartitionShape& shape, uint64_t rounds);
  ~PartitionOffer();
  PartitionOffer(const PartitionOffer&) = delete;
  PartitionOffer& operator=(const PartitionOffer&) = delete;

  // Rounds count from 1. Is this one known not to travel through the host MPI?
  bool is_direct(uint64_t round) const {
    const uint64_t seen = channel_.rounds.load(std::memory_order_acquire);
    return seen & PartitionChannel::joined && round >= seen >> PartitionChannel::number_shift;
  }
  // Do kernels hand over all rounds that do not travel through the host MPI?
  bool by_kernels() const {
    return area_ && channel_.rounds.load(std::memory_order_acquire) & PartitionChannel::by_kernels;
  }
  // They shall not. False: the sender has joined, and they do.
  bool leave_to_cpu();
  // Opens the buffer for a round that they hand over.
  kernels::HandOver opening() const;
  // A GPU has failed meanwhile, or does so: in this round the sender waits no more.
  bool is_broken() const { return channel_.broken.load(std::memory_order_acquire) != 0; }
  void fail();
  // False: this one, which starts now, travels through the host MPI.
  bool begin_round(uint64_t round);
  uint32_t* open() { return &channel_.open; }
  uint32_t* arrived(int partition) { return &channel_.arrived[partition]; }
  // Before the end of its use, the words serve no other message.
  StreamUse& use() { return use_; }

 private:
  PartitionOffer(std::atomic<uint64_t>& name, PartitionChannel& channel, int index)
      : name_(name), channel_(channel), index_(index) {}
  void add_area(node::Node& node, void* table, int sender, const PartitionShape& shape);
  std::atomic<uint64_t>& name_;
  PartitionChannel& channel_;
  const int index_;
  kernels::HandOverShape shape_;
  void* buffer_ = nullptr;
  void* area_ = nullptr;                            // null: kernels hand nothing over
  PartitionChannel* channel_of_kernels_ = nullptr;  // as they address it
  StreamUse use_;
};

// The sender's side.
class PartitionLink {
 public:
  // Null if the receiver, a node rank, does not offer a buffer of this shape now, or `device` cannot reach
  // it. `rounds`: that have started.
  static std::unique_ptr<PartitionLink> join(node::Node& node, int receiver, const MessageKey& key,
                                             const PartitionShape& shape, int device, uint64_t rounds);
  ~PartitionLink();
  // Of the first round that does not travel through the host MPI.
  uint64_t first_round() const { return first_round_; }
  // Do kernels hand over that and all later ones?
  bool by_kernels() const { return area_.address() != nullptr; }
  // Hands over partitions of the message that begins there.
  kernels::HandOver giving(const void* message, int first, int count) const;
  uint32_t* sent() { return &channel_->sent; }
  // As of the offer; in this round no rank waits any more.
  bool is_broken() const { return channel_->broken.load(std::memory_order_acquire) != 0; }
  void fail();
  StreamUse& use() { return use_; }
  char* at(int partition) const {
    return static_cast<char*>(mapped_.address()) + shape_.partition_bytes * static_cast<uint64_t>(partition);
  }
  uint32_t* open() { return &channel_->open; }
  uint32_t* arrived(int partition) { return &channel_->arrived[partition]; }
  // Of the first partition, as kernels address it; null: they cannot.
  uint32_t* arrived_for_kernels() const {
    return channel_of_kernels_ ? channel_of_kernels_->arrived : nullptr;
  }

 private:
  PartitionLink() = default;
  void map_area(node::Node& node, int receiver, int owner_device, int device);
  PartitionChannel* channel_ = nullptr;
  PartitionChannel* channel_of_kernels_ = nullptr;  // as they address it
  device::MappedMemory mapped_, area_;
  PartitionShape shape_{};
  uint64_t first_round_ = 0;
  StreamUse use_;
};

}  // namespace fairlead::p2p
