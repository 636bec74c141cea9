// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_buffer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/options.h"
#include "device/blocking_driver_calls.h"

namespace fairlead::device {
namespace {

struct Idle {
  unsigned char* address;
  Context context;
  bool limited;
};

std::mutex mutex;
auto& idle = *new std::map<size_t, std::vector<Idle>>;
// Of what is limited:
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

// The caller holds the lock. Takes an idle buffer of one of these sizes; its address is null if there is
// none. Those of a device that was reset are no more.
Idle take_idle(size_t* bytes, size_t longest) {
  for (auto fitting = idle.lower_bound(*bytes); fitting != idle.end() && fitting->first <= longest;
       ++fitting) {
    auto& [size, list] = *fitting;
    while (!list.empty()) {
      const Idle taken = list.back();
      list.pop_back();
      if (taken.context.is_gone_for_any()) {
        if (taken.limited) count(size, false);
        continue;
      }
      *bytes = size;
      return taken;
    }
  }
  return {nullptr, {}, false};
}

Attempt allocate(size_t bytes, int device, unsigned char** address, Context* context) {
  if (!runtime() || !runtime()->in_use()) return Attempt::later;
  void* fresh = nullptr;
  const BlockingDriverCalls calls;
  if (!calls.may_allocate()) return Attempt::later;
  if (calls->allocate_pinned(bytes, &fresh, &device) != Error::none) return Attempt::never;
  *address = static_cast<unsigned char*>(fresh);
  *context = Context(device);
  return Attempt::made;
}

}  // namespace

// The caller holds the lock.
bool PinnedBuffer::take_idle(size_t longest) {
  const Idle taken = device::take_idle(&bytes_, longest);
  std::tie(pinned_, context_, limited_) = std::tie(taken.address, taken.context, taken.limited);
  return pinned_ != nullptr;
}

// Frees no idle buffer to make room: that would wait for all work on the devices, including the program's
// kernels. A long idle buffer serves a short message only if there is no room for a new one.
PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(common_size(bytes)) {
  if (bytes == 0) return;
  std::lock_guard lock(mutex);
  if (take_idle(2 * bytes_)) return;
  const size_t limit = pool_limit();
  const bool has_room = total + bytes_ <= limit && (!is_long(bytes_) || total_long + bytes_ <= limit / 2);
  if (has_room && allocate(bytes_, -1, &pinned_, &context_) == Attempt::made) {
    limited_ = true;
    count(bytes_, true);
  } else if (!take_idle(SIZE_MAX)) {
    ordinary_ = HostBuffer(bytes);
  }
}

Attempt PinnedBuffer::make(size_t bytes, PinnedBuffer* made, int device) {
  PinnedBuffer fresh;
  fresh.bytes_ = common_size(bytes);
  const Attempt outcome = allocate(fresh.bytes_, device, &fresh.pinned_, &fresh.context_);
  if (outcome == Attempt::made) *made = std::move(fresh);
  return outcome;
}

PinnedBuffer PinnedBuffer::of_program(size_t bytes) {
  PinnedBuffer made;
  made.bytes_ = common_size(bytes);
  {
    std::lock_guard lock(mutex);
    if (made.take_idle(2 * made.bytes_)) return made;
  }
  if (!runtime() || !runtime()->in_use()) return made;
  void* fresh = nullptr;
  int device = -1;
  if (BlockingDriverCalls::of_program()->allocate_pinned(made.bytes_, &fresh, &device) == Error::none) {
    made.pinned_ = static_cast<unsigned char*>(fresh);
    made.context_ = Context(device);
  }
  return made;
}

PinnedBuffer::~PinnedBuffer() {
  if (!pinned_) return;
  std::lock_guard lock(mutex);
  if (!context_.is_gone())
    idle[bytes_].push_back({pinned_, context_, limited_});
  else if (limited_)
    count(bytes_, false);
}

void release_pinned() {
  std::lock_guard lock(mutex);
  const BlockingDriverCalls calls;
  if (!calls) return;
  for (auto& [bytes, list] : idle) {
    for (const Idle& one : list) {
      if (!one.context.is_gone()) calls->free_pinned(one.address);
      if (one.limited) count(bytes, false);
    }
  }
  idle.clear();
}

}  // namespace fairlead::device
