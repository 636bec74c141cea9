// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_buffer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/options.h"
#include "device/runtime.h"
#include "device/waiting_calls.h"

namespace fairlead::device {
namespace {

std::mutex mutex;
auto& idle = *new std::map<size_t, std::vector<unsigned char*>>;
size_t total = 0;       // in use and idle
size_t total_long = 0;  // of that, in long buffers

// A few long buffers would leave no page-locked memory for all others: together they get half of it.
bool is_long(size_t bytes) {
  return bytes > options().network_memory / 8;
}

}  // namespace

namespace {

// Four sizes for each power of two, so that messages of similar length use the same buffers.
size_t common_size(size_t bytes) {
  const size_t unit = std::max(std::bit_floor(bytes) / 4, size_t{4096});
  return (bytes + unit - 1) / unit * unit;
}

// The caller holds the lock. Takes an idle buffer of one of these sizes; null if there is none.
unsigned char* take_idle(size_t* bytes, size_t longest) {
  for (auto fitting = idle.lower_bound(*bytes); fitting != idle.end() && fitting->first <= longest;
       ++fitting) {
    auto& [size, list] = *fitting;
    if (list.empty()) continue;
    *bytes = size;
    unsigned char* taken = list.back();
    list.pop_back();
    return taken;
  }
  return nullptr;
}

}  // namespace

// Frees no idle buffer to make room: that would wait for all work on the devices, including the program's
// kernels. A long idle buffer serves a short message only if there is no room for a new one.
PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(common_size(bytes)) {
  if (bytes == 0) return;
  std::lock_guard lock(mutex);
  if ((pinned_ = take_idle(&bytes_, 2 * bytes_))) return;
  void* fresh = nullptr;
  const size_t limit = options().network_memory;
  const bool has_room = total + bytes_ <= limit && (!is_long(bytes_) || total_long + bytes_ <= limit / 2);
  if (has_room && runtime() && runtime()->in_use())
    if (const WaitingCalls::Permission permission; permission.may_make())
      (void)runtime()->allocate_pinned(bytes_, &fresh);
  if (fresh) {
    pinned_ = static_cast<unsigned char*>(fresh);
    total += bytes_;
    if (is_long(bytes_)) total_long += bytes_;
  } else if (!(pinned_ = take_idle(&bytes_, SIZE_MAX))) {
    ordinary_ = HostBuffer(bytes);
  }
}

PinnedBuffer::~PinnedBuffer() {
  if (!pinned_) return;
  std::lock_guard lock(mutex);
  idle[bytes_].push_back(pinned_);
}

void release_pinned() {
  std::lock_guard lock(mutex);
  for (auto& [bytes, list] : idle) {
    for (unsigned char* address : list) runtime()->free_pinned(address);
    total -= bytes * list.size();
    if (is_long(bytes)) total_long -= bytes * list.size();
  }
  idle.clear();
}

}  // namespace fairlead::device
