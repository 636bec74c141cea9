// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_buffer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/options.h"
#include "device/waiting_calls.h"

namespace fairlead::device {
namespace {

struct Idle {
  unsigned char* address;
  Context context;
};

std::mutex mutex;
auto& idle = *new std::map<size_t, std::vector<Idle>>;
size_t total = 0;       // in use and idle
size_t total_long = 0;  // of that, in long buffers

size_t pool_limit() {
  static const size_t limit = options().pools("host");
  return limit;
}

// A few long buffers would leave no page-locked memory for all others: together they get half of it.
bool is_long(size_t bytes) {
  return bytes > pool_limit() / 8;
}

void count(size_t bytes, bool added) {
  total += added ? bytes : -bytes;
  if (is_long(bytes)) total_long += added ? bytes : -bytes;
}

// Four sizes for each power of two, so that messages of similar length use the same buffers.
size_t common_size(size_t bytes) {
  const size_t unit = std::max(std::bit_floor(bytes) / 4, size_t{4096});
  return (bytes + unit - 1) / unit * unit;
}

// The caller holds the lock. Takes an idle buffer of one of these sizes; null if there is none. Those of a
// device that was reset are no more.
unsigned char* take_idle(size_t* bytes, size_t longest, Context* context) {
  for (auto fitting = idle.lower_bound(*bytes); fitting != idle.end() && fitting->first <= longest;
       ++fitting) {
    auto& [size, list] = *fitting;
    while (!list.empty()) {
      const Idle taken = list.back();
      list.pop_back();
      if (taken.context.is_gone_for_any()) {
        count(size, false);
        continue;
      }
      *bytes = size;
      *context = taken.context;
      return taken.address;
    }
  }
  return nullptr;
}

}  // namespace

// Frees no idle buffer to make room: that would wait for all work on the devices, including the program's
// kernels. A long idle buffer serves a short message only if there is no room for a new one.
PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(common_size(bytes)) {
  if (bytes == 0) return;
  std::lock_guard lock(mutex);
  if ((pinned_ = take_idle(&bytes_, 2 * bytes_, &context_))) return;
  void* fresh = nullptr;
  const size_t limit = pool_limit();
  const bool has_room = total + bytes_ <= limit && (!is_long(bytes_) || total_long + bytes_ <= limit / 2);
  if (has_room && runtime() && runtime()->in_use())
    if (const WaitingCalls::Permission permission; permission.may_make())
      (void)allocate_pinned(bytes_, &fresh, &context_);
  if (fresh) {
    pinned_ = static_cast<unsigned char*>(fresh);
    count(bytes_, true);
  } else if (!(pinned_ = take_idle(&bytes_, SIZE_MAX, &context_))) {
    ordinary_ = HostBuffer(bytes);
  }
}

PinnedBuffer::~PinnedBuffer() {
  if (!pinned_) return;
  std::lock_guard lock(mutex);
  if (context_.is_gone())
    count(bytes_, false);
  else
    idle[bytes_].push_back({pinned_, context_});
}

void release_pinned() {
  std::lock_guard lock(mutex);
  for (auto& [bytes, list] : idle) {
    for (const Idle& one : list) {
      if (!one.context.is_gone()) runtime()->free_pinned(one.address);
      count(bytes, false);
    }
  }
  idle.clear();
}

}  // namespace fairlead::device
