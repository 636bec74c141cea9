// SPDX-License-Identifier: Apache-2.0

#include "transport/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "base/log.h"
#include "base/memory/page_size.h"
#include "base/options.h"
#include "device/buffer_pool.h"
#include "device/context.h"
#include "device/registered_memory.h"
#include "transport/peer.h"

namespace fairlead::transport {
namespace {

using device::Error;
using node::chunks_in_flight;
using node::Medium;
using node::NodeMemory;
using node::RankBlock;

constexpr auto grace = std::chrono::milliseconds(5);

// Each chunk when it is first used: all of an arena would take tens of milliseconds. If the driver refuses,
// this costs bandwidth, not correctness.
void register_chunk(unsigned char* chunk, uint64_t bytes) {
  if (device::runtime() && device::runtime()->in_use()) (void)device::register_memory(chunk, bytes);
}

class HostArena final : public Arena {
 public:
  explicit HostArena(Node& node) {
    chunk_bytes_ = whole_pages(options().pieces("staging"));
    uint64_t count = options().pools("node") / chunk_bytes_;
    if (count == 0) return;
    memory_ = node.memory().create(count * chunk_bytes_);
    if (!memory_.data()) {
      log_line(LogLevel::info, "there are no %llu bytes of staging memory: %s",
               static_cast<unsigned long long>(count * chunk_bytes_), std::strerror(errno));
      memory_ = {};
      return;
    }
    chunks_ = count;
    for (uint64_t i = count; i-- > 0;) idle_.push_back(i * chunk_bytes_);
    node.mine().arena_offset = memory_.offset();
    node.mine().arena_chunk_bytes = chunk_bytes_;
    node.mine().arena_bytes.store(memory_.bytes(), std::memory_order_release);
  }
  bool usable() const { return chunks_ > 0; }
  const NodeMemory::Range& memory() const { return memory_; }
  size_t in_use() const { return chunks_ - idle_.size(); }

  std::optional<uint64_t> find_room(uint64_t) override {
    if (idle_.empty()) return std::nullopt;
    uint64_t offset = idle_.back();
    idle_.pop_back();
    register_chunk(memory_.data() + offset, chunk_bytes_);
    return offset;
  }
  char* at(uint64_t offset) const override { return reinterpret_cast<char*>(memory_.data()) + offset; }

 private:
  void put_back(uint64_t offset) override { idle_.push_back(offset); }

  NodeMemory::Range memory_;
  size_t chunks_ = 0;
  std::vector<uint64_t> idle_;
};

// Chunks are allocated from the buffer pool, which buffered sends use as well.
class DeviceArena final : public Arena {
 public:
  DeviceArena(int device, char* slab) : device_(device), slab_(slab), context_(device) {
    constexpr uint64_t least = 4096;
    chunk_bytes_ =
        std::max(least, std::min(options().pieces("bounce"), options().pools("device") / chunks_in_flight));
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
  bool is_gone() const { return context_.is_gone(); }

 private:
  void put_back(uint64_t offset) override { device::pool_free(slab_ + offset); }

  int device_;
  char* slab_;
  device::Context context_;
};

HostArena*& opened_host_arena() {
  static HostArena* opened = nullptr;
  return opened;
}

// The host arena of a rank. The first use maps it in this process as well; invalid while the rank has none.
const NodeMemory::Range& host_arena_of(Node& node, int owner) {
  if (owner == node.rank() && opened_host_arena()) return opened_host_arena()->memory();
  static auto& opened = *new std::map<int, NodeMemory::Range>;
  NodeMemory::Range& memory = opened[owner];
  if (!memory) {
    RankBlock& block = node.block(owner);
    const uint64_t bytes = block.arena_bytes.load(std::memory_order_acquire);
    memory = node.memory().open(block.arena_offset, bytes);
  }
  return memory;
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
  return std::chrono::steady_clock::now() - last_change_ > grace;
}

Arena* host_arena(Node& node) {
  HostArena*& opened = opened_host_arena();
  if (!opened) opened = new HostArena(node);
  return opened->usable() ? opened : nullptr;
}

Arena* device_arena(Node& node, int device, uint64_t bytes) {
  static auto& arenas = *new std::map<int, DeviceArena*>;
  if (!options().pools("device") || !export_probe(node, device)) return nullptr;
  DeviceArena*& opened = arenas[device];
  if (!opened || opened->is_gone())  // who stages in one that is gone still uses it
    opened = new DeviceArena(device, static_cast<char*>(device::pool_slab(device)));
  return opened->has_room(std::min(bytes, opened->chunk_bytes())) ? opened : nullptr;
}

bool may_stage(Node& node, int device, uint64_t bytes, Medium medium) {
  return (medium == Medium::device && device_arena(node, device, bytes)) ||
         options().pools("node") < options().pieces("staging") || host_arena(node);
}

bool ArenaView::open(Node& node, int owner, const Rendezvous& rendezvous, Medium medium, int* device) {
  if (bytes_ > 0) return true;
  if (medium == Medium::host) {
    in_host_ = &host_arena_of(node, owner);
    host_chunk_bytes_ = node::read_once(node.block(owner).arena_chunk_bytes);
    start_ = reinterpret_cast<const char*>(in_host_->data());
    bytes_ = in_host_->bytes();
  } else if (reach(node, owner, node::read_once(rendezvous.device), device,
                   node::read_once(rendezvous.source), &mapped_) == Reason::none) {
    start_ = static_cast<const char*>(mapped_.address());
    bytes_ = mapped_.bytes();
  }
  return bytes_ > 0;
}

bool ArenaView::holds(uint64_t offset, uint64_t bytes) const {
  return offset <= bytes_ && bytes <= bytes_ - offset;
}

// A copy must not reach beyond the memory that was registered with its beginning.
const char* ArenaView::chunk_at(uint64_t offset) const {
  if (!start_) return nullptr;
  if (in_host_ && host_chunk_bytes_ > 0 && host_chunk_bytes_ % page_size() == 0) {
    const uint64_t begin = offset / host_chunk_bytes_ * host_chunk_bytes_;
    if (holds(begin, host_chunk_bytes_)) register_chunk(in_host_->data() + begin, host_chunk_bytes_);
  }
  return start_ + offset;
}

bool ArenaView::read(uint64_t offset, void* to, uint64_t bytes) const {
  return in_host_ && in_host_->read(offset, to, bytes);
}

size_t staged_chunks_in_use() {
  HostArena* opened = opened_host_arena();
  return opened ? opened->in_use() : 0;
}

}  // namespace fairlead::transport
