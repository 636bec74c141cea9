// SPDX-License-Identifier: Apache-2.0

#include "packing/block_list.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/host_buffer.h"
#include "device/buffer_pool.h"
#include "device/copy.h"
#include "device/waiting_calls.h"

namespace fairlead::packing {
namespace {

using device::Error;
using kernels::Block;

constexpr uint64_t equal_bytes_at_most = uint64_t{1} << 28;

// In place of a device number: page-locked memory, which all devices can read, and the buffer pools of
// devices.
constexpr int in_host_memory = -1;
int in_pool_of(int device) {
  return -2 - device;
}

// Memory of unused tables, by device and size. Sizes are powers of two.
struct Idle {
  std::mutex mutex;
  std::multimap<std::pair<int, size_t>, void*> memory;
  std::map<const void*, std::pair<int, size_t>> in_use;
};
Idle& idle() {
  static auto* only = new Idle;  // types may outlive static objects
  return *only;
}

Error allocate(std::pair<int, size_t> kind, void** memory) {
  auto [device, bytes] = kind;
  if (device < in_host_memory) {
    *memory = device::pool_allocate(in_pool_of(device), bytes);
    return *memory ? Error::none : Error::out_of_memory;
  }
  const device::WaitingCalls::Permission permission;
  if (!permission.may_make()) return Error::out_of_memory;
  return device == in_host_memory ? device::runtime()->allocate_pinned(bytes, memory)
                                  : device::runtime()->allocate(device, bytes, memory);
}

void free_table(void* memory, int device) {
  if (device < in_host_memory) return device::pool_free(memory);
  device == in_host_memory ? device::runtime()->free_pinned(memory) : device::runtime()->free(memory);
}

// Takes host memory if the program has filled the device, and memory of the pool if no other can be had now.
Error take(int device, size_t bytes, void** memory) {
  Error error = Error::out_of_memory;
  std::lock_guard lock(idle().mutex);
  for (int place : {device, in_host_memory, in_pool_of(device)}) {
    std::pair<int, size_t> kind{place, std::bit_ceil(bytes)};
    if (auto found = idle().memory.find(kind); found != idle().memory.end()) {
      *memory = found->second;
      idle().memory.erase(found);
      error = Error::none;
    } else {
      error = allocate(kind, memory);
    }
    if (error == Error::none) idle().in_use[*memory] = kind;
    if (error != Error::out_of_memory) return error;
  }
  return error;
}

void give_back(const void* memory) {
  std::lock_guard lock(idle().mutex);
  auto found = idle().in_use.find(memory);
  if (found == idle().in_use.end()) return;  // MPI_Finalize has freed it already
  idle().memory.emplace(found->second, const_cast<void*>(memory));
  idle().in_use.erase(found);
}

// Appends the blocks of `tree`; false if there are more than `most`.
bool collect(const Tree& tree, int64_t offset, uint64_t* position, std::vector<Block>* blocks, size_t most) {
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
  std::vector<Block> blocks;
  uint64_t bytes = 0;
  if (!collect(tree.shifted(-tree.first()), 0, &bytes, &blocks, most)) return nullptr;
  return std::make_shared<const BlockList>(std::move(blocks), bytes);
}

BlockList::BlockList(std::vector<Block> blocks, uint64_t bytes) : blocks_(std::move(blocks)), bytes_(bytes) {
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
  for (auto& [device, table] : tables_) give_back(table.blocks);
}

BlockList::Run BlockList::run_at(uint64_t position) const {
  auto after = std::upper_bound(blocks_.begin(), blocks_.end(), position,
                                [](uint64_t at, const Block& block) { return at < block.position; });
  auto block = static_cast<size_t>(after - blocks_.begin()) - 1;
  uint64_t inside = position - blocks_[block].position;
  return {blocks_[block].offset + static_cast<int64_t>(inside), end_of(block) - position};
}

bool BlockList::operator==(const BlockList& other) const {
  return bytes_ == other.bytes_ && std::equal(blocks_.begin(), blocks_.end(), other.blocks_.begin(),
                                              other.blocks_.end(), [](const Block& a, const Block& b) {
                                                return a.offset == b.offset && a.position == b.position;
                                              });
}

Error BlockList::table_on(int device, kernels::BlockTable* table) const {
  std::lock_guard lock(mutex_);
  auto [entry, added] = tables_.try_emplace(device);
  Error error = added ? upload(device, &entry->second) : Error::none;
  *table = entry->second;
  if (error != Error::none) tables_.erase(entry);
  return error;
}

Error BlockList::upload(int device, kernels::BlockTable* table) const {
  size_t count = blocks_.size();
  // About as many buckets as blocks: a bucket then holds one or two.
  unsigned shift = static_cast<unsigned>(std::bit_width(std::max<uint64_t>(bytes_ / count, 1)) - 1);
  size_t buckets = equal_bytes_ ? 0 : static_cast<size_t>((bytes_ - 1) >> shift) + 2;
  size_t block_bytes = count * (equal_bytes_ ? sizeof(int64_t) : sizeof(Block));
  size_t bytes = block_bytes + buckets * sizeof(uint32_t);
  HostBuffer image(bytes);
  if (!image.data()) return Error::out_of_memory;
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
  void* memory = nullptr;
  if (Error error = take(device, bytes, &memory); error != Error::none) return error;
  if (Error error = device::copy_now(device, memory, image.data(), bytes); error != Error::none) {
    give_back(memory);
    return error;
  }
  *table = {memory, nullptr, equal_bytes_, bits_, shift};
  if (!equal_bytes_)
    table->buckets = reinterpret_cast<const uint32_t*>(static_cast<const char*>(memory) + block_bytes);
  return Error::none;
}

void release_block_tables() {
  std::lock_guard lock(idle().mutex);
  for (auto& [kind, memory] : idle().memory) free_table(memory, kind.first);
  idle().memory.clear();
  for (auto& [memory, kind] : idle().in_use) free_table(const_cast<void*>(memory), kind.first);
  idle().in_use.clear();
}

}  // namespace fairlead::packing
