// SPDX-License-Identifier: Apache-2.0

#include "transport/arena.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/log.h"
#include "base/options.h"
#include "device/buffer_pool.h"
#include "transport/peer.h"

namespace fairlead::transport {
namespace {

using device::Error;
using node::chunks_in_flight;
using node::Medium;
using node::RankBlock;
using node::SharedMemory;

constexpr auto patience = std::chrono::milliseconds(5);

auto& pinned = *new std::map<void*, size_t>;

// Pinning is for speed only; a driver that refuses costs bandwidth, not correctness.
void pin(const SharedMemory& memory) {
  if (device::runtime()->register_host(memory.data(), memory.size()) == Error::none)
    pinned[memory.data()] = memory.size();
  else
    log_line(LogLevel::info, "staging memory could not be pinned: %s", device::runtime()->error_text());
}

class HostArena final : public Arena {
 public:
  explicit HostArena(Node& node) {
    chunk_bytes_ = (options().staging_chunk + 4095) / 4096 * 4096;
    uint64_t count = options().staging_arena / chunk_bytes_;
    if (count == 0) return;
    memory_ = SharedMemory::create(count * chunk_bytes_);
    if (!memory_) return;
    pin(memory_);
    chunks_ = count;
    for (uint64_t i = count; i-- > 0;) idle_.push_back(i * chunk_bytes_);
    node.mine().arena_bytes = memory_.size();
    node.mine().arena_fd.store(memory_.fd() + 1, std::memory_order_release);
  }
  bool usable() const { return chunks_ > 0; }
  size_t in_use() const { return chunks_ - idle_.size(); }

  std::optional<uint64_t> find_room(uint64_t) override {
    if (idle_.empty()) return std::nullopt;
    uint64_t offset = idle_.back();
    idle_.pop_back();
    return offset;
  }
  char* at(uint64_t offset) const override { return reinterpret_cast<char*>(memory_.data()) + offset; }

 private:
  void put_back(uint64_t offset) override { idle_.push_back(offset); }

  SharedMemory memory_;
  size_t chunks_ = 0;
  std::vector<uint64_t> idle_;
};

// Chunks are pieces of the pool, which buffered sends use as well.
class DeviceArena final : public Arena {
 public:
  DeviceArena(int device, char* slab) : device_(device), slab_(slab) {
    constexpr uint64_t least = 4096;
    chunk_bytes_ =
        std::max(least, std::min(options().bounce_chunk, options().buffer_pool / chunks_in_flight));
  }

  bool has_room(uint64_t bytes) {
    std::optional<uint64_t> room = find_room(bytes);
    if (room) put_back(*room);
    return room.has_value();
  }
  std::optional<uint64_t> find_room(uint64_t bytes) override {
    void* piece = device::pool_allocate(device_, bytes);
    if (!piece) return std::nullopt;
    return static_cast<char*>(piece) - slab_;
  }
  char* at(uint64_t offset) const override { return slab_ + offset; }

 private:
  void put_back(uint64_t offset) override { device::pool_free(slab_ + offset); }

  int device_;
  char* slab_;
};

HostArena*& opened_host_arena() {
  static HostArena* opened = nullptr;
  return opened;
}

// The host arena of another rank, mapped and pinned here too at first use; null when that is impossible.
const char* host_arena_of(Node& node, int owner) {
  if (owner == node.rank()) return opened_host_arena()->at(0);
  static auto& opened = *new std::map<int, SharedMemory>;
  SharedMemory& memory = opened[owner];
  if (!memory) {
    RankBlock& block = node.block(owner);
    int fd = block.arena_fd.load(std::memory_order_acquire) - 1;
    memory = SharedMemory::open(block.pid, fd, block.arena_bytes);
    if (memory && device::runtime() && device::runtime()->in_use()) pin(memory);
  }
  return reinterpret_cast<const char*>(memory.data());
}

}  // namespace

void Arena::give_back(uint64_t offset) {
  put_back(offset);
  last_change_ = std::chrono::steady_clock::now();
}

std::optional<uint64_t> Arena::take(uint64_t bytes) {
  std::optional<uint64_t> room = find_room(bytes);
  if (room) last_change_ = std::chrono::steady_clock::now();
  return room;
}

bool Arena::stuck() const {
  return std::chrono::steady_clock::now() - last_change_ > patience;
}

Arena* host_arena(Node& node) {
  HostArena*& opened = opened_host_arena();
  if (!opened) opened = new HostArena(node);
  return opened->usable() ? opened : nullptr;
}

Arena* device_arena(Node& node, int device, uint64_t bytes) {
  static auto& arenas = *new std::map<int, DeviceArena*>;
  if (!options().buffer_pool || !offer_proof(node, device)) return nullptr;
  DeviceArena*& opened = arenas[device];
  if (!opened) opened = new DeviceArena(device, static_cast<char*>(device::pool_slab(device)));
  return opened->has_room(std::min(bytes, opened->chunk_bytes())) ? opened : nullptr;
}

const char* ArenaView::open(Node& node, int owner, const Offer& offer, int* device) {
  if (start_) return start_;
  if (offer.medium == Medium::host) {
    start_ = host_arena_of(node, owner);
  } else if (reach(node, owner, offer.device, device, offer.source, &mapped_) == Reason::none) {
    start_ = static_cast<const char*>(mapped_.address());
  }
  return start_;
}

size_t pinned_bytes() {
  size_t bytes = 0;
  for (auto& [address, size] : pinned) bytes += size;
  return bytes;
}

void unpin_host_arenas() {
  std::erase_if(pinned,
                [](auto& entry) { return device::runtime()->unregister_host(entry.first) == Error::none; });
}

size_t staged_chunks_in_use() {
  HostArena* opened = opened_host_arena();
  return opened ? opened->in_use() : 0;
}

}  // namespace fairlead::transport
