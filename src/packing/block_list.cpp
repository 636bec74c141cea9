// SPDX-License-Identifier: Apache-2.0

#include "packing/block_list.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/memory/host_buffer.h"
#include "device/blocking_driver_calls.h"
#include "device/buffer_pool.h"
#include "device/copies/copy.h"

namespace fairlead::packing {
namespace {

using device::Context;
using device::Error;
using kernels::ListedBlock;

constexpr uint64_t equal_bytes_at_most = uint64_t{1} << 28;

// In place of a device number: page-locked memory, which all devices can read, and the buffer pools of
// devices.
constexpr int in_host_memory = -1;
int in_pool_of(int device) {
  return -2 - device;
}
bool is_in_pool(const TableMemory& memory) {
  return memory.location < in_host_memory;
}

// Memory of unused tables, by location and size, and of those in use. Sizes are powers of two.
struct Known {
  std::mutex mutex;
  std::multimap<std::pair<int, size_t>, TableMemory> idle;
  std::map<const void*, TableMemory> in_use;
};
Known& known() {
  static auto* only = new Known;  // types may outlive static objects
  return *only;
}

Attempt allocate(TableMemory* memory) {
  const int location = memory->location;
  memory->context = Context(is_in_pool(*memory) ? in_pool_of(location) : location);
  if (is_in_pool(*memory)) {
    memory->address = device::pool_allocate(in_pool_of(location), memory->bytes);
    return memory->address ? Attempt::made : Attempt::never;
  }
  if (location == in_host_memory) {
    auto pinned = std::make_shared<device::PinnedBuffer>();
    const Attempt made = device::PinnedBuffer::make(memory->bytes, pinned.get());
    memory->address = pinned->data();
    memory->context = pinned->context();
    memory->pinned = std::move(pinned);
    return made;
  }
  const device::BlockingDriverCalls calls;
  if (!calls.may_allocate()) return Attempt::later;
  const Error error = calls->allocate(location, memory->bytes, &memory->address);
  return error == Error::none ? Attempt::made : Attempt::never;
}

void free_table(const TableMemory& memory) {
  if (is_in_pool(memory)) return device::pool_free(memory.address);
  if (memory.context.is_gone() || memory.location == in_host_memory) return;
  if (const device::BlockingDriverCalls calls; calls) calls->free(memory.address);
}

// The caller holds the lock.
void free_what_is_gone() {
  std::erase_if(known().idle, [](const auto& entry) {
    const bool gone = entry.second.context.is_gone();
    if (gone) free_table(entry.second);
    return gone;
  });
}

// Takes host memory if the program has filled the device, and memory of the pool if no other can be had now.
Attempt take(int device, size_t bytes, TableMemory* memory) {
  Attempt outcome = Attempt::never;
  std::lock_guard lock(known().mutex);
  for (int location : {device, in_host_memory, in_pool_of(device)}) {
    *memory = {nullptr, location, std::bit_ceil(bytes), {}, nullptr};
    auto found = known().idle.find({location, memory->bytes});
    while (found != known().idle.end() && found->second.context.is_gone_for_any()) {
      free_what_is_gone();
      found = known().idle.find({location, memory->bytes});
    }
    if (found != known().idle.end()) {
      *memory = found->second;
      known().idle.erase(found);
      outcome = Attempt::made;
    } else if (const Attempt allocated = allocate(memory); allocated != Attempt::never) {
      outcome = allocated;
    }
    if (outcome == Attempt::made) {
      known().in_use[memory->address] = *memory;
      break;
    }
  }
  return outcome;
}

// If the memory is gone, another table may have its address.
void give_back(const TableMemory& memory) {
  std::lock_guard lock(known().mutex);
  auto found = known().in_use.find(memory.address);
  if (found == known().in_use.end()) return;  // MPI_Finalize has freed it already
  const bool gone = memory.context.is_gone();
  if (gone) free_table(memory);
  if (gone != found->second.context.is_gone()) return;
  known().in_use.erase(found);
  if (!gone) known().idle.emplace(std::pair(memory.location, memory.bytes), memory);
}

// Appends the blocks of `tree`; false if there are more than `most`.
bool collect(const Tree& tree, int64_t offset, uint64_t* position, std::vector<ListedBlock>* blocks,
             size_t most) {
  if (tree.dense()) {
    if (blocks->size() == most) return false;
    blocks->push_back({offset + tree.first(), *position});
    *position += tree.size();
    return true;
  }
  offset += tree.first();
  if (tree.is_loop()) {
    for (uint64_t i = 0; i < tree.count(); ++i)
      if (!collect(tree.child(), offset + static_cast<int64_t>(i) * tree.stride(), position, blocks, most))
        return false;
    return true;
  }
  return std::all_of(tree.parts().begin(), tree.parts().end(),
                     [&](const Tree& part) { return collect(part, offset, position, blocks, most); });
}

}  // namespace

std::shared_ptr<const BlockList> BlockList::make(const Tree& tree, size_t most) {
  std::vector<ListedBlock> blocks;
  uint64_t bytes = 0;
  if (!collect(tree.shifted(-tree.first()), 0, &bytes, &blocks, most)) return nullptr;
  return std::make_shared<const BlockList>(std::move(blocks), bytes);
}

BlockList::BlockList(std::vector<ListedBlock> blocks, uint64_t bytes)
    : blocks_(std::move(blocks)), bytes_(bytes) {
  equal_bytes_ = end_of(0);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    uint64_t length = end_of(i) - blocks_[i].position;
    bits_ |= length | static_cast<uint64_t>(blocks_[i].offset);
    if (length != equal_bytes_) equal_bytes_ = 0;
  }
  if (equal_bytes_ >= equal_bytes_at_most) equal_bytes_ = 0;
}

// Another list may fill a table again while a kernel reads it. The callers prevent this: they wait for their
// moves before they release the list, which orders uploads and kernels.
BlockList::~BlockList() {
  for (auto& [device, table] : tables_) give_back(table.memory);
}

BlockList::Run BlockList::run_at(uint64_t position) const {
  auto after = std::upper_bound(blocks_.begin(), blocks_.end(), position,
                                [](uint64_t at, const ListedBlock& block) { return at < block.position; });
  auto block = static_cast<size_t>(after - blocks_.begin()) - 1;
  uint64_t inside = position - blocks_[block].position;
  return {blocks_[block].offset + static_cast<int64_t>(inside), end_of(block) - position};
}

bool BlockList::operator==(const BlockList& other) const {
  return bytes_ == other.bytes_ &&
         std::equal(blocks_.begin(), blocks_.end(), other.blocks_.begin(), other.blocks_.end(),
                    [](const ListedBlock& a, const ListedBlock& b) {
                      return a.offset == b.offset && a.position == b.position;
                    });
}

Attempt BlockList::table_on(int device, kernels::BlockTable* table) const {
  std::lock_guard lock(mutex_);
  auto [entry, added] = tables_.try_emplace(device);
  const bool gone = !added && entry->second.memory.context.is_gone_for_any();
  if (gone) give_back(entry->second.memory);
  const bool lacks = added || gone;
  const Attempt outcome = lacks ? upload(device, &entry->second) : Attempt::made;
  *table = entry->second.on_device;
  if (outcome != Attempt::made) tables_.erase(entry);
  return outcome;
}

Attempt BlockList::upload(int device, Table* table) const {
  size_t count = blocks_.size();
  // About as many buckets as blocks: a bucket then holds one or two.
  unsigned shift = static_cast<unsigned>(std::bit_width(std::max<uint64_t>(bytes_ / count, 1)) - 1);
  size_t buckets = equal_bytes_ ? 0 : static_cast<size_t>((bytes_ - 1) >> shift) + 2;
  size_t block_bytes = count * (equal_bytes_ ? sizeof(int64_t) : sizeof(ListedBlock));
  size_t bytes = block_bytes + buckets * sizeof(uint32_t);
  TableMemory memory;
  if (const Attempt taken = take(device, bytes, &memory); taken != Attempt::made) return taken;
  HostBuffer image(bytes);
  if (!image.data()) {
    give_back(memory);
    return Attempt::never;
  }
  if (equal_bytes_) {
    auto offsets = reinterpret_cast<int64_t*>(image.data());
    for (size_t i = 0; i < count; ++i) offsets[i] = blocks_[i].offset;
  } else {
    std::memcpy(image.data(), blocks_.data(), block_bytes);
    auto firsts = reinterpret_cast<uint32_t*>(image.data() + block_bytes);
    for (size_t bucket = 0, block = 0; bucket + 1 < buckets; ++bucket) {
      while (end_of(block) <= bucket << shift) ++block;
      firsts[bucket] = static_cast<uint32_t>(block);
    }
    firsts[buckets - 1] = static_cast<uint32_t>(count - 1);
  }
  if (device::copy_now(device, memory.address, image.data(), bytes) != Error::none) {
    give_back(memory);
    return Attempt::never;
  }
  *table = {{memory.address, nullptr, equal_bytes_, bits_, shift}, memory};
  if (!equal_bytes_)
    table->on_device.buckets =
        reinterpret_cast<const uint32_t*>(static_cast<const char*>(memory.address) + block_bytes);
  return Attempt::made;
}

void release_block_tables() {
  std::lock_guard lock(known().mutex);
  for (const auto& [kind, memory] : known().idle) free_table(memory);
  known().idle.clear();
  for (const auto& [address, memory] : known().in_use) free_table(memory);
  known().in_use.clear();
}

}  // namespace fairlead::packing
