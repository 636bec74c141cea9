// SPDX-License-Identifier: Apache-2.0

#include "device/buffer_pool.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/log.h"
#include "base/options.h"

namespace fairlead::device {
namespace {

constexpr size_t alignment = 256;

std::mutex mutex;
char* slab = nullptr;
int slab_device = -1;
bool refused = false;  // asked the driver once and got none
// Offsets of the free and of the taken pieces; never destroyed with the process.
auto& free_pieces = *new std::map<size_t, size_t>;
auto& taken_pieces = *new std::map<size_t, size_t>;

void* slab_locked(int device) {
  if (slab || refused) return slab;
  size_t bytes = pool_proof_bytes + options().buffer_pool;
  void* address = nullptr;
  Error error = runtime()->allocate(device, bytes, &address);
  if (error != Error::none && options().buffer_pool) {
    log_line(LogLevel::warn,
             "no %zu bytes of device memory for buffered sends (%s); they go through host memory", bytes,
             runtime()->error_text());
    error = runtime()->allocate(device, bytes = pool_proof_bytes, &address);
  }
  if (error != Error::none) {
    refused = true;
    return nullptr;
  }
  slab = static_cast<char*>(address);
  slab_device = device;
  if (bytes > pool_proof_bytes) free_pieces[pool_proof_bytes] = bytes - pool_proof_bytes;
  return slab;
}

}  // namespace

void* pool_slab(int device) {
  std::lock_guard lock(mutex);
  return slab_locked(device);
}

int pool_device() {
  std::lock_guard lock(mutex);
  return slab_device;
}

void* pool_allocate(int device, size_t bytes) {
  bytes = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  std::lock_guard lock(mutex);
  if (!slab_locked(device)) return nullptr;
  auto piece =
      std::find_if(free_pieces.begin(), free_pieces.end(), [&](auto& p) { return p.second >= bytes; });
  if (piece == free_pieces.end()) return nullptr;
  auto [offset, size] = *piece;
  free_pieces.erase(piece);
  if (size > bytes) free_pieces[offset + bytes] = size - bytes;
  taken_pieces[offset] = bytes;
  return slab + offset;
}

void pool_free(void* address) {
  std::lock_guard lock(mutex);
  auto taken = taken_pieces.find(static_cast<char*>(address) - slab);
  auto [offset, size] = *taken;
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

size_t pool_bytes_in_use() {
  std::lock_guard lock(mutex);
  size_t bytes = 0;
  for (auto& [offset, size] : taken_pieces) bytes += size;
  return bytes;
}

void pool_release() {
  std::lock_guard lock(mutex);
  if (slab) runtime()->free(slab);
  slab = nullptr;
  slab_device = -1;
  free_pieces.clear();
}

}  // namespace fairlead::device
