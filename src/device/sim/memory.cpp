// SPDX-License-Identifier: Apache-2.0

#include "device/sim/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <vector>

#include "base/memory/page_size.h"
#include "base/options.h"
#include "device/sim/error.h"

namespace fairlead::device::sim {
namespace {

// Enough addresses for 64 devices of 16 GiB each; less if the address space of the process is limited.
constexpr size_t region_wanted = size_t{1} << 40, region_least = size_t{1} << 30;

constexpr size_t small_bytes = size_t{16} << 10, small_kept = 64;
constexpr unsigned char poison_of_new = 0xA5;

bool forbid_access(uintptr_t start, size_t bytes) {
  return mmap(reinterpret_cast<void*>(start), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

bool is_pinned_allocation(const Block& block) {
  return block.kind == MemoryKind::pinned && !block.registered;
}
bool is_small(const Block& block) {
  return block.kind == MemoryKind::device && !block.imported && block.origin == Origin::plain &&
         block.mapped <= small_bytes;
}
bool is_device_allocation(const Block& block) {
  return block.kind != MemoryKind::pinned && !block.imported;
}

}  // namespace

bool is_coherent() {
  return options().sim_bar == "coherent";
}

Block::~Block() {
  if (!registered && !object) release_object();
}

void Block::release_object() {
  if (alias) munmap(alias, mapped + whole_pages(1));
  if (fd >= 0) close(fd);
}

void Block::share(const BlockRef& other) {
  release_object();
  object = other;
  alias = other->alias;
  fd = other->fd;
  nonce = other->nonce;
}

Allocation Block::describe(const void* address) const {
  bool exportable = kind == MemoryKind::device && !imported && origin != Origin::pool;
  bool ordinary = exportable && origin == Origin::plain;
  if (origin != Origin::pieces) return {kind, exportable, device, base, size, id, ordinary};
  size_t piece = (reinterpret_cast<uintptr_t>(address) - base) / piece_bytes;
  size_t start = piece * piece_bytes;
  const bool for_other_nodes = exportable && !options().sim_fabric.empty();
  return {kind,       exportable, device,         base + start, std::min(piece_bytes, size - start),
          id + piece, false,      for_other_nodes};
}

bool Memory::in_region(const void* address) const {
  size_t size = region_size_.load(std::memory_order_acquire);
  return reinterpret_cast<uintptr_t>(address) - region_start_.load(std::memory_order_relaxed) < size;
}

BlockRef Memory::find(const void* address) const {
  auto place = reinterpret_cast<uintptr_t>(address);
  if (!in_region(address) && (place < registered_low_ || place >= registered_high_)) return nullptr;
  std::shared_lock lock(mutex_);
  auto next = blocks_.upper_bound(place);
  if (next == blocks_.begin()) return nullptr;
  const BlockRef& block = std::prev(next)->second;
  return place - block->base < block->size ? block : nullptr;
}

Error Memory::reserve_region() {
  if (addresses_) return Error::none;
  for (size_t size = region_wanted; size >= region_least; size /= 2) {
    void* start = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) continue;
    region_start_ = reinterpret_cast<uintptr_t>(start);
    region_size_.store(size, std::memory_order_release);
    addresses_ = std::make_unique<Addresses>(region_start_, size);
    return Error::none;
  }
  return fail(Error::out_of_memory,
              "cannot reserve addresses for simulated device memory: %s; is `ulimit -v` set?",
              strerror(errno));
}

// Gives a small block the object of the first one at its address, and forgets small blocks whose place it
// takes with another length. Those that nobody shares any more are forgotten when they are many, since each
// keeps a descriptor open.
void Memory::share_small(const BlockRef& block) {
  const bool many = small_.size() > small_kept;
  BlockRef shared;
  std::erase_if(small_, [&](const auto& entry) {
    const auto& [base, first] = entry;
    const bool same = is_small(*block) && base == block->base && first->mapped == block->mapped &&
                      first->device == block->device;
    if (same) shared = first;
    const bool overlaps = base < block->base + block->mapped && block->base < base + first->mapped;
    return !same && (overlaps || (many && first.use_count() == 1));
  });
  if (shared) {
    block->share(shared);
    poison(*block, poison_of_new);
  } else if (is_small(*block)) {
    small_[block->base] = block;
  }
}

// Assigns the block an address of the region and registers it.
Error Memory::place(const BlockRef& block, void** address) {
  std::unique_lock lock(mutex_);
  if (Error error = reserve_region(); error != Error::none) return error;
  if (block->imported && imported_.count({block->nonce, block->offset, block->device}))
    return fail(Error::already_mapped, "this device has imported the memory already");
  uintptr_t base = addresses_->take(block->mapped);
  if (!base)
    return fail(Error::out_of_memory, "no simulated device addresses left for %zu bytes", block->size);
  block->base = base;
  block->id = last_id_.fetch_add(block->pieces()) + 1;
  if (shares_small_) share_small(block);
  const bool is_device = block->kind == MemoryKind::device;
  block->host_may_access = !is_device || (is_coherent() && !block->is_of_one_device());
  if (block->host_may_access &&
      mmap(reinterpret_cast<void*>(base), block->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           block->fd, static_cast<off_t>(block->offset)) == MAP_FAILED) {
    addresses_->give_back(base, block->mapped);
    return fail(Error::out_of_memory, "cannot map %zu bytes: %s", block->size, strerror(errno));
  }
  if (block->imported) imported_.insert({block->nonce, block->offset, block->device});
  if (block->fd >= 0 && (block->imported || !is_device)) {
    close(block->fd);
    block->fd = -1;
  }
  blocks_[base] = block;
  ended_.erase(base);
  *address = reinterpret_cast<void*>(base);
  return Error::none;
}

Error Memory::count_pinned(uint64_t bytes) {
  if (bytes <= pinned_capacity_ && pinned_used_.fetch_add(bytes) + bytes <= pinned_capacity_)
    return Error::none;
  if (bytes <= pinned_capacity_) pinned_used_ -= bytes;
  return fail(Error::out_of_memory,
              "this process has %llu of %llu page-locked bytes in use; %llu more do not fit",
              static_cast<unsigned long long>(pinned_used_),
              static_cast<unsigned long long>(pinned_capacity_), static_cast<unsigned long long>(bytes));
}

Error Memory::allocate(MemoryKind kind, Origin origin, int location, int device, size_t bytes,
                       void** address) {
  if (!bytes) return fail(Error::invalid_value, "an allocation of 0 bytes was asked for");
  auto block = std::make_shared<Block>();
  block->kind = kind;
  block->origin = origin;
  block->device = device;
  block->location = location;
  block->size = bytes;
  bool pinned = kind == MemoryKind::pinned;
  if (pinned) {
    if (Error error = count_pinned(bytes); error != Error::none) return error;
  } else if (bytes > capacity_ || used_[device].fetch_add(bytes) + bytes > capacity_) {
    if (bytes <= capacity_) used_[device] -= bytes;
    return fail(Error::out_of_memory,
                "simulated device %d has %llu of %llu bytes in use; %zu more do not fit", device,
                static_cast<unsigned long long>(used_[device]), static_cast<unsigned long long>(capacity_),
                bytes);
  }
  block->mapped = whole_pages(bytes);
  Error error = create_object(block.get());
  if (error == Error::none) {
    if (!pinned) poison(*block, poison_of_new);
    error = place(block, address);
  }
  if (error != Error::none) (pinned ? pinned_used_ : used_[device]) -= bytes;
  return error;
}

void Memory::refuse_ended(const void* address) const {
  std::shared_lock lock(mutex_);
  if (ended_.count(reinterpret_cast<uintptr_t>(address)))
    die("%p is freed, unregistered or closed after a reset of its device", address);
}

// Removes the block at exactly this address from the table if `wanted` accepts it.
template <class Wanted>
BlockRef Memory::take_out(void* address, Wanted wanted) {
  refuse_ended(address);
  std::unique_lock lock(mutex_);
  auto entry = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (entry == blocks_.end() || !wanted(*entry->second)) return nullptr;
  BlockRef block = entry->second;
  blocks_.erase(entry);
  block->live = false;
  if (block->imported) imported_.erase({block->nonce, block->offset, block->device});
  return block;
}

// The address becomes available only now, when no bytes of the block are visible there any more.
void Memory::release(const BlockRef& block) {
  if (block->host_may_access) forbid_access(block->base, block->mapped);
  std::unique_lock lock(mutex_);
  addresses_->give_back(block->base, block->mapped);
}

Error Memory::free(void* address, bool pinned) {
  BlockRef block = take_out(address, pinned ? is_pinned_allocation : is_device_allocation);
  if (!block)
    return fail(Error::invalid_value, "%p is not the start of %s memory allocated here", address,
                pinned ? "pinned" : "device or managed");
  free_block(block);
  return Error::none;
}

// The caller has taken it out.
void Memory::free_block(const BlockRef& block) {
  if (block->kind == MemoryKind::device) destroy_contents(*block);
  (block->kind == MemoryKind::pinned ? pinned_used_ : used_[block->device]) -= block->size;
  release(block);
}

void Memory::end_all_of(int device) {
  std::vector<BlockRef> gone;
  {
    std::unique_lock lock(mutex_);
    std::erase_if(blocks_, [&](const auto& entry) {
      const auto& [base, block] = entry;
      if (block->device != device) return false;
      gone.push_back(block);
      ended_.insert(base);
      block->live = false;
      if (block->imported) imported_.erase({block->nonce, block->offset, block->device});
      return true;
    });
    std::erase_if(small_, [&](const auto& entry) { return entry.second->device == device; });
  }
  for (const BlockRef& block : gone) {
    if (block->registered)
      pinned_used_ -= block->size;
    else if (block->imported)
      release(block);
    else
      free_block(block);
  }
}

Error Memory::register_host(int device, void* address, size_t bytes) {
  auto start = reinterpret_cast<uintptr_t>(address);
  if (!address || !bytes || start + bytes < start || in_region(address))
    return fail(Error::invalid_value, "%p, %zu bytes: not a range of host memory", address, bytes);
  std::unique_lock lock(mutex_);
  auto next = blocks_.lower_bound(start + bytes);
  if (next != blocks_.begin()) {
    const Block& before = *std::prev(next)->second;
    if (before.base <= start && start + bytes <= before.base + before.size) return Error::none;
    if (before.base + before.size > start)
      return fail(Error::invalid_value, "%p, %zu bytes: overlaps registered memory", address, bytes);
  }
  if (Error error = count_pinned(bytes); error != Error::none) return error;
  auto block = std::make_shared<Block>();
  block->kind = MemoryKind::pinned;
  block->device = device;
  block->registered = true;
  block->base = start;
  block->size = bytes;
  block->alias = static_cast<char*>(address);
  block->id = ++last_id_;
  blocks_[start] = block;
  ended_.erase(start);
  registered_low_ = std::min(registered_low_.load(), start);
  registered_high_ = std::max(registered_high_.load(), start + bytes);
  return Error::none;
}

Error Memory::unregister_host(void* address) {
  if (BlockRef block = take_out(address, [](const Block& b) { return b.registered; })) {
    pinned_used_ -= block->size;
    return Error::none;
  }
  return fail(Error::invalid_value, "%p is not the start of registered memory", address);
}

Error Memory::ipc_close(int device, void* base) {
  BlockRef block = take_out(base, [&](const Block& b) { return b.imported && b.device == device; });
  if (!block)
    return fail(Error::invalid_value, "%p is not the start of memory that device %d imported", base, device);
  release(block);
  return Error::none;
}

}  // namespace fairlead::device::sim
