// SPDX-License-Identifier: Apache-2.0

#include "device/buffer_pool.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/options.h"
#include "device/blocking_driver_calls.h"
#include "device/context.h"

namespace fairlead::device {
namespace {

constexpr size_t alignment = 256;

std::mutex mutex;

// Of a slab, apart from its first bytes.
constexpr size_t least_room = 4 << 20;

struct Pool {
  char* slab = nullptr;
  size_t bytes = 0;
  bool refused = false;  // the driver refused even the first bytes
  bool for_peers = true;
  Context context;
  // Maps from offset to size.
  std::map<size_t, size_t> free_pieces, taken_pieces;

  bool holds(const void* address) const {
    return slab && static_cast<size_t>(static_cast<const char*>(address) - slab) < bytes;
  }
  void* open(int device);
  void give_back(size_t offset);
};

// Indexed by device; the process never destroys it.
auto& pools = *new std::map<int, Pool>;
// Pieces in use of slabs that a reset of the device has freed. A new slab may have their addresses.
auto& lost = *new std::multiset<const void*>;

Pool& pool_of(int device) {
  Pool& pool = pools[device];
  if (!pool.context.is_gone()) return pool;
  for (const auto& [offset, size] : pool.taken_pieces) lost.insert(pool.slab + offset);
  return pool = Pool();
}

void* Pool::open(int device) {
  if (slab || refused) return slab;
  const BlockingDriverCalls calls;
  if (!calls.may_allocate()) return nullptr;
  void* address = nullptr;
  context = Context(device);
  Error error = Error::out_of_memory;
  // On a GPU that is nearly full, less is better than nothing.
  for (size_t room = options().pools("device"); error != Error::none;
       room = room > least_room ? room / 2 : 0) {
    bytes = pool_probe_bytes + room;
    error = calls->allocate_for_peers(device, bytes, &address);
    for_peers = error == Error::none;
    if (!for_peers) error = calls->allocate(device, bytes, &address);
    if (room == 0) break;
  }
  if (bytes == pool_probe_bytes && options().pools("device"))
    log_line(LogLevel::warn, "no device memory for buffered sends (%s); they go through host memory",
             runtime()->error_text());
  if (error != Error::none) {
    refused = true;
    return nullptr;
  }
  slab = static_cast<char*>(address);
  if (bytes > pool_probe_bytes) free_pieces[pool_probe_bytes] = bytes - pool_probe_bytes;
  return slab;
}

void Pool::give_back(size_t offset) {
  auto taken = taken_pieces.find(offset);
  size_t size = taken->second;
  taken_pieces.erase(taken);
  auto next = free_pieces.lower_bound(offset);
  if (next != free_pieces.end() && offset + size == next->first) {
    size += next->second;
    next = free_pieces.erase(next);
  }
  if (next != free_pieces.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += size;
      return;
    }
  }
  free_pieces[offset] = size;
}

}  // namespace

void* pool_slab(int device) {
  std::lock_guard lock(mutex);
  return pool_of(device).open(device);
}

void* pool_allocate(int device, size_t bytes) {
  bytes = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  std::lock_guard lock(mutex);
  Pool& pool = pool_of(device);
  if (!pool.open(device)) return nullptr;
  auto piece = std::find_if(pool.free_pieces.begin(), pool.free_pieces.end(),
                            [&](auto& p) { return p.second >= bytes; });
  if (piece == pool.free_pieces.end()) return nullptr;
  auto [offset, size] = *piece;
  pool.free_pieces.erase(piece);
  if (size > bytes) pool.free_pieces[offset + bytes] = size - bytes;
  pool.taken_pieces[offset] = bytes;
  return pool.slab + offset;
}

void pool_free(void* address) {
  std::lock_guard lock(mutex);
  for (const auto& [device, pool] : pools) (void)pool_of(device);
  // If a piece in use has the same address, it is freed by the other one's call.
  if (const auto gone = lost.find(address); gone != lost.end()) {
    lost.erase(gone);
    return;
  }
  for (auto& [device, pool] : pools)
    if (pool.holds(address))
      return pool.give_back(static_cast<size_t>(static_cast<char*>(address) - pool.slab));
}

size_t pool_room(int device) {
  std::lock_guard lock(mutex);
  Pool& pool = pool_of(device);
  size_t most = 0;
  if (pool.open(device))
    for (const auto& [offset, size] : pool.free_pieces) most = std::max(most, size);
  return most;
}

bool pool_is_for_peers(int device) {
  std::lock_guard lock(mutex);
  return pool_of(device).for_peers;
}

size_t pool_bytes_in_use() {
  std::lock_guard lock(mutex);
  size_t bytes = 0;
  for (auto& [device, pool] : pools)
    for (auto& [offset, size] : pool.taken_pieces) bytes += size;
  return bytes;
}

void pool_release() {
  std::lock_guard lock(mutex);
  const BlockingDriverCalls calls;
  for (auto& [device, pool] : pools)
    if (calls && pool.slab && !pool.context.is_gone()) calls->free(pool.slab);
  pools.clear();
}

}  // namespace fairlead::device
