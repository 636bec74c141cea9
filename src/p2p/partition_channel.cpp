// SPDX-License-Identifier: Apache-2.0

#include "p2p/partition_channel.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/memory/page_size.h"
#include "base/mix.h"
#include "base/options.h"
#include "device/registered_memory.h"
#include "p2p/rts_check.h"
#include "p2p/shared_area.h"
#include "transport/peer.h"

namespace fairlead::p2p {
namespace {

using node::Reason;

// What a rank offers; 0: nothing.
struct Table {
  std::atomic<uint64_t> names[channels_per_rank];
  PartitionChannel channels[channels_per_rank];
};

// Whole pages, because GPUs store to it.
size_t table_bytes() {
  return whole_pages(sizeof(Table));
}

uint64_t name_of(const MessageKey& key) {
  return mixed(key.sequence, key.number) | 1;
}

// Null: there is none, or streams cannot use it.
Table* table_of(node::Node& node, int rank) {
  unsigned char* const area = shared_area(node, rank, &node::RankBlock::channels_offset, table_bytes());
  return area && device::register_memory(area, table_bytes()) ? reinterpret_cast<Table*>(area) : nullptr;
}

// This rank's channels. A stream may use the words of one whose offer is gone.
struct Own {
  bool taken = false;
  std::function<bool()> ended;  // empty: the offer exists
};
auto& own = *new std::array<Own, channels_per_rank>;
auto& own_mutex = *new std::mutex;  // requests are freed without the engine's lock

int take_index() {
  std::lock_guard lock(own_mutex);
  for (Own& one : own)
    if (one.ended && one.ended()) one = {};
  const auto found = std::ranges::find(own, false, &Own::taken);
  if (found == own.end()) return -1;
  found->taken = true;
  return static_cast<int>(found - own.begin());
}

uint64_t all_bytes(const PartitionShape& shape) {
  return shape.partition_bytes * static_cast<uint64_t>(shape.partitions);
}

}  // namespace

void open_channels(node::Node& node) {
  (void)table_of(node, node.rank());
}

void open_channels_to(node::Node& node, const std::vector<int>& node_ranks, int device) {
  for (int rank : node_ranks) {
    if (rank < 0 || rank == node.rank() || !options().ipc || !table_of(node, rank)) continue;
    for (int theirs = 0; theirs < node::devices_per_rank; ++theirs)
      if (node.block(rank).probes[theirs].ready.load(std::memory_order_acquire) &&
          transport::decide_pair(node, rank, theirs, device) == Reason::none)
        (void)transport::copies_may_write(node, rank, theirs, device);
  }
}

std::unique_ptr<PartitionOffer> PartitionOffer::post(node::Node& node, int sender, const MessageKey& key,
                                                     const device::Allocation& allocation, void* address,
                                                     const PartitionShape& shape, uint64_t rounds) {
  if (!options().ipc || !key || sender < 0 || sender == node.rank() || shape.partition_bytes == 0 ||
      shape.partitions > channel_partitions || !allocation.ordinary || !allocation.exportable ||
      allocation.device < 0 || allocation.device >= node::devices_per_rank)
    return nullptr;
  Table* const table = table_of(node, node.rank());
  // The sender may be the first to look whether it can reach this device.
  if (!table || !transport::export_probe(node, allocation.device)) return nullptr;
  const int index = take_index();
  if (index < 0) return nullptr;
  PartitionChannel& channel = table->channels[index];
  std::atomic<uint64_t>& name = table->names[index];
  auto made = std::unique_ptr<PartitionOffer>(new PartitionOffer(name, channel, index));
  if (!transport::export_to(node, {&sender, 1}, allocation, address, all_bytes(shape), &channel.memory))
    return nullptr;
  channel.partition_bytes = shape.partition_bytes;
  channel.partitions = shape.partitions;
  channel.device = allocation.device;
  channel.open = 0;
  std::ranges::fill(channel.arrived, 0);
  channel.rounds.store(rounds << 1, std::memory_order_relaxed);
  name.store(name_of(key), std::memory_order_release);
  return made;
}

PartitionOffer::~PartitionOffer() {
  name_.store(0, std::memory_order_release);
  std::lock_guard lock(own_mutex);
  Own& mine = own[static_cast<size_t>(index_)];
  if (for_ever_) ended_ = [] { return false; };
  mine = ended_ && !ended_() ? Own{true, std::move(ended_)} : Own{};
}

void PartitionOffer::use_until(std::function<bool()> ended) {
  for_ever_ = for_ever_ || !ended;
  ended_ = std::move(ended);
}

bool PartitionOffer::begin_round(uint64_t round) {
  uint64_t seen = channel_.rounds.load(std::memory_order_acquire);
  while (!(seen & PartitionChannel::joined))
    if (channel_.rounds.compare_exchange_weak(seen, round << 1, std::memory_order_acq_rel)) return false;
  return round >= seen >> 1;
}

std::unique_ptr<PartitionLink> PartitionLink::join(node::Node& node, int receiver, const MessageKey& key,
                                                   const PartitionShape& shape, int device, uint64_t rounds) {
  if (!options().ipc || !key || receiver < 0 || receiver == node.rank() ||
      shape.partitions > channel_partitions)
    return nullptr;
  Table* const table = table_of(node, receiver);
  if (!table) return nullptr;
  const auto found = std::ranges::find(table->names, name_of(key),
                                       [](const auto& name) { return name.load(std::memory_order_acquire); });
  if (found == std::end(table->names)) return nullptr;
  PartitionChannel& channel = table->channels[found - table->names];
  const node::RemoteMemory memory = node::read_once(channel.memory);
  const int owner_device = node::read_once(channel.device);
  kernels::StridedShape whole;
  whole.piece = all_bytes(shape);
  if (channel.partitions != shape.partitions || channel.partition_bytes != shape.partition_bytes ||
      !is_sound(memory, whole, 0, whole.piece))
    return nullptr;
  auto made = std::unique_ptr<PartitionLink>(new PartitionLink);
  if (!transport::reach_from(node, receiver, owner_device, device, memory, &made->mapped_) ||
      !transport::copies_may_write(node, receiver, owner_device, device) ||
      (shape.partition_bytes <= transport::longest_in_turns &&
       node.decision(receiver, owner_device, node.rank()).in_turns))
    return nullptr;
  made->channel_ = &channel;
  made->partition_bytes_ = shape.partition_bytes;
  uint64_t seen = channel.rounds.load(std::memory_order_acquire);
  do {
    made->first_round_ = std::max(seen >> 1, rounds) + 1;
  } while (!channel.rounds.compare_exchange_weak(seen, made->first_round_ << 1 | PartitionChannel::joined,
                                                 std::memory_order_acq_rel));
  return made;
}

}  // namespace fairlead::p2p
