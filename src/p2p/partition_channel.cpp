// SPDX-License-Identifier: Apache-2.0

#include "p2p/partition_channel.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "base/memory/page_size.h"
#include "base/mix.h"
#include "base/options.h"
#include "device/blocking_driver_calls.h"
#include "device/buffer_pool.h"
#include "device/registered_memory.h"
#include "kernels/handover/handover_run.h"
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

// This rank's channels. A stream may use the words and the area of one whose offer is gone.
struct Own {
  bool taken = false;
  std::optional<StreamUse> use;  // once it is gone
  void* area = nullptr;
};
auto& own = *new std::array<Own, channels_per_rank>;
// Channels, areas and buffers of others that a stream of this rank may use.
struct Left {
  StreamUse use;
  device::MappedMemory mapped[2];
  PartitionChannel* channel;
};
auto& left = *new std::vector<Left>;
auto& own_mutex = *new std::mutex;  // of all this: requests are freed without the engine's lock
uint64_t freed_requests = 0;

void free_unused() {
  for (Own& one : own) {
    if (!one.use || !one.use->is_over()) continue;
    if (one.area) device::pool_free(one.area);
    one = {};
  }
  std::erase_if(left, [](const Left& one) {
    const bool over = one.use.is_over();
    if (over) one.channel->held.store(0, std::memory_order_release);
    return over;
  });
}

int take_index(Table& table) {
  std::lock_guard lock(own_mutex);
  free_unused();
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].taken || table.channels[i].held.load(std::memory_order_acquire)) continue;
    own[i].taken = true;
    return static_cast<int>(i);
  }
  return -1;
}

uint64_t all_bytes(const PartitionShape& shape) {
  return shape.partition_bytes * static_cast<uint64_t>(shape.partitions);
}

// A channel of a table, as kernels address it; null: they cannot.
PartitionChannel* for_kernels(void* table, PartitionChannel& channel, int device) {
  auto* const there = static_cast<char*>(device::registered_for_kernels(device, table));
  const auto offset = reinterpret_cast<char*>(&channel) - static_cast<char*>(table);
  return there ? reinterpret_cast<PartitionChannel*>(there + offset) : nullptr;
}

// Longer messages are the work of copy engines: their area would take more of the buffer pool than they gain.
constexpr uint64_t handed_over_at_most = 4 << 20;

kernels::HandOverShape of_kernels(const PartitionShape& shape) {
  return {shape.partition_bytes, static_cast<unsigned>(shape.partitions)};
}

}  // namespace

void open_channels(node::Node& node) {
  (void)table_of(node, node.rank());
}

void free_unused_channels(AskDevices ask) {
  const auto for_each_graph = [](auto do_it) {
    for (Own& one : own)
      if (one.use && one.use->graph_devices()) do_it(*one.use);
    for (Left& one : left)
      if (one.use.graph_devices()) do_it(one.use);
  };
  std::unique_lock lock(own_mutex);
  uint64_t asked = 0, idle = ask == AskDevices::at_end ? UINT64_MAX : 0;
  if (ask == AskDevices::yes && !device::BlockingDriverCalls::in_thread_of_library)
    for_each_graph([&](StreamUse& use) { asked |= use.graph_devices(); });
  if (asked && device::runtime()->queries_all_streams()) {
    const uint64_t freed_before = freed_requests;
    lock.unlock();
    for (int device = 0; device < node::devices_per_rank; ++device)
      if (asked >> device & 1 && device::runtime()->query_device(device) == device::Error::none)
        idle |= uint64_t{1} << device;
    lock.lock();
    // The answers are of before what another thread has freed meanwhile.
    if (freed_requests != freed_before) idle = 0;
  }
  if (idle) for_each_graph([&](StreamUse& use) { use.end_graphs_of(idle); });
  free_unused();
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
  node::RemoteMemory memory;
  if (!transport::export_to(node, {&sender, 1}, allocation, address, all_bytes(shape), &memory))
    return nullptr;
  const int index = take_index(*table);
  if (index < 0) return nullptr;
  PartitionChannel& channel = table->channels[index];
  std::atomic<uint64_t>& name = table->names[index];
  auto made = std::unique_ptr<PartitionOffer>(new PartitionOffer(name, channel, index));
  channel.memory = memory;
  channel.partition_bytes = shape.partition_bytes;
  channel.partitions = shape.partitions;
  channel.device = allocation.device;
  channel.open = 0;
  channel.sent = 0;
  channel.broken = 0;
  std::ranges::fill(channel.arrived, 0);
  made->buffer_ = address;
  channel.owner = {};
  if (shape.by_kernels) made->add_area(node, table, sender, shape);
  channel.rounds.store(rounds << PartitionChannel::number_shift, std::memory_order_relaxed);
  name.store(name_of(key), std::memory_order_release);
  return made;
}

// Memory that the kernels of both ranks can use, if there is any.
void PartitionOffer::add_area(node::Node& node, void* table, int sender, const PartitionShape& shape) {
  const kernels::HandOverShape handed = shape_ = of_kernels(shape);
  const int device = channel_.device;
  // Others need the pool, too.
  if (all_bytes(shape) > handed_over_at_most || handed.area_bytes() > device::pool_room(device) / 2 ||
      !kernels::handovers_run_on(device) ||
      device::runtime()->device_info(device, &channel_.owner) != device::Error::none)
    return;
  channel_of_kernels_ = for_kernels(table, channel_, device);
  if (channel_of_kernels_)
    area_ = transport::make_scratch(node, {&sender, 1}, device, handed.area_bytes(), handed.words_bytes(),
                                    &channel_.area);
  if (!area_) channel_.owner = {};
}

kernels::HandOver PartitionOffer::opening() const {
  return {.shape = shape_,
          .count = shape_.partitions,
          .buffer = buffer_,
          .area = area_,
          .arrived = channel_of_kernels_->arrived,
          .sent = &channel_of_kernels_->sent};
}

PartitionOffer::~PartitionOffer() {
  name_.store(0, std::memory_order_release);
  if (is_broken()) use_.until([] { return false; });  // the sender may use it
  {
    std::lock_guard lock(own_mutex);
    own[static_cast<size_t>(index_)] = {true, std::move(use_), area_};
    ++freed_requests;
  }
  free_unused_channels(AskDevices::yes);
}

void PartitionOffer::fail() {
  channel_.broken.store(1, std::memory_order_release);
  std::atomic_ref(channel_.sent).store(1, std::memory_order_release);
}

bool PartitionOffer::begin_round(uint64_t round) {
  uint64_t seen = channel_.rounds.load(std::memory_order_acquire);
  while (!(seen & PartitionChannel::joined))
    if (channel_.rounds.compare_exchange_weak(
            seen, round << PartitionChannel::number_shift | (seen & PartitionChannel::not_by_kernels),
            std::memory_order_acq_rel))
      return false;
  return round >= seen >> PartitionChannel::number_shift;
}

bool PartitionOffer::leave_to_cpu() {
  uint64_t seen = channel_.rounds.load(std::memory_order_acquire);
  while (!(seen & PartitionChannel::joined))
    if (channel_.rounds.compare_exchange_weak(seen, seen | PartitionChannel::not_by_kernels,
                                              std::memory_order_acq_rel))
      return true;
  return !(seen & PartitionChannel::by_kernels);
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
  made->shape_ = shape;
  made->channel_of_kernels_ = for_kernels(table, channel, device);
  if (shape.by_kernels) made->map_area(node, receiver, owner_device, device);
  channel.held.store(1, std::memory_order_relaxed);
  uint64_t seen = channel.rounds.load(std::memory_order_acquire), joined = 0;
  do {
    if (seen & PartitionChannel::not_by_kernels) made->area_ = {};
    made->first_round_ = std::max(seen >> PartitionChannel::number_shift, rounds) + 1;
    joined = made->first_round_ << PartitionChannel::number_shift | PartitionChannel::joined |
             (made->by_kernels() ? PartitionChannel::by_kernels : 0);
  } while (!channel.rounds.compare_exchange_weak(seen, joined, std::memory_order_acq_rel));
  return made;
}

void PartitionLink::map_area(node::Node& node, int receiver, int owner_device, int device) {
  const auto owner = node::read_once(channel_->owner);
  if (!owner.name[0] || !channel_of_kernels_ || !kernels::handovers_run_on(device) ||
      !device::runtime()->has_peer_atomics(device, owner) ||
      !transport::reach_from(node, receiver, owner_device, device, node::read_once(channel_->area), &area_) ||
      reinterpret_cast<uintptr_t>(area_.address()) % kernels::handover_unit != 0 ||
      area_.bytes() < of_kernels(shape_).area_bytes())
    area_ = {};
}

kernels::HandOver PartitionLink::giving(const void* message, int first, int count) const {
  return {.shape = of_kernels(shape_),
          .first = static_cast<unsigned>(first),
          .count = static_cast<unsigned>(count),
          .from = message,
          .buffer = mapped_.address(),
          .area = area_.address(),
          .arrived = channel_of_kernels_->arrived,
          .sent = &channel_of_kernels_->sent};
}

PartitionLink::~PartitionLink() {
  if (!channel_) return;  // not joined
  {
    std::lock_guard lock(own_mutex);
    left.push_back({std::move(use_), {std::move(mapped_), std::move(area_)}, channel_});
    ++freed_requests;
  }
  free_unused_channels(AskDevices::yes);
}

void PartitionLink::fail() {
  channel_->broken.store(1, std::memory_order_release);
  std::atomic_ref(channel_->sent).store(1, std::memory_order_release);
  for (uint32_t& word : channel_->arrived)
    std::atomic_ref(word).store(partition_failed, std::memory_order_release);
}

}  // namespace fairlead::p2p
