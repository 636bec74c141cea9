// SPDX-License-Identifier: Apache-2.0

#include "device/copies/submit_copies.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/system/processor.h"
#include "device/classify.h"
#include "device/context.h"
#include "device/pinned_buffer.h"

namespace fairlead::device {
namespace {

// The CPU fills or empties one half while the device copies to or from the other.
constexpr size_t half = size_t{512} << 10;
auto& halves = *new PinnedBuffer;
std::atomic<bool> prepared = false;

// Where device memory was found in this period, in which streams wait: a query takes about a microsecond. Of
// page-locked memory nothing is remembered: it may be unregistered, or freed and its place taken by pageable
// memory. Drivers keep the addresses of device memory, most of it.
struct Range {
  uintptr_t base = 0;
  size_t bytes = 0;
  Context context;
};
std::array<Range, 16> known;
size_t found = 0;
unsigned period = 0;

MemoryKind kind_of(const void* address) {
  if (certainly_host(address)) return MemoryKind::host;
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Range& range : known)
    if (at - range.base < range.bytes && !range.context.is_gone()) return MemoryKind::device;
  const Allocation memory = classify(address);
  if (memory.kind == MemoryKind::device)
    known[found++ % known.size()] = {memory.base, memory.size, Context(memory.device)};
  return memory.kind;
}

Error submit_one(const CopyItem& item, Stream stream) {
  const auto& [to, from, bytes, rows, to_pitch, from_pitch] = item;
  if (rows == 1) return runtime()->copy(to, from, bytes, stream);
  return runtime()->copy_2d(to, to_pitch, from, from_pitch, bytes, rows, stream);
}

// Calls step(part) for parts of the copy that fit into a half: some whole rows, or a part of one.
template <class Step>
Error by_parts(const CopyItem& item, Step step) {
  for (size_t row = 0, rows = 0; row < item.rows; row += rows) {
    rows = std::clamp<size_t>(half / item.bytes, 1, item.rows - row);
    for (size_t at = 0; at < item.bytes; at += half) {
      const CopyItem part{static_cast<char*>(item.to) + row * item.to_pitch + at,
                          static_cast<const char*>(item.from) + row * item.from_pitch + at,
                          std::min(item.bytes - at, half),
                          rows,
                          item.to_pitch,
                          item.from_pitch};
      if (Error error = step(part); error != Error::none) return error;
    }
  }
  return Error::none;
}

Error copy_by_pinned(const CopyItem& item, bool to_host, Stream stream) {
  CopyItem arriving{nullptr, nullptr, 0, 0};  // the device copies it into page-locked memory
  unsigned turn = 0;
  Error error = by_parts(item, [&](const CopyItem& part) {
    unsigned char* const between = halves.data() + turn++ % 2 * half;
    const CopyItem in{between, part.from, part.bytes, part.rows, part.bytes, part.from_pitch};
    const CopyItem out{part.to, between, part.bytes, part.rows, part.to_pitch, part.bytes};
    if (!to_host) copy_by_cpu(in);
    Error step = wait_by_queries(stream);
    if (step == Error::none) step = submit_one(to_host ? in : out, stream);
    if (step == Error::none && to_host) copy_by_cpu(std::exchange(arriving, out));
    return step;
  });
  if (error == Error::none) error = wait_by_queries(stream);
  if (error == Error::none) copy_by_cpu(arriving);
  return error;
}

}  // namespace

Error wait_by_queries(Stream stream) {
  Error state;
  while ((state = runtime()->query_stream(stream)) == Error::not_ready) relax();
  return state;
}

void copy_by_cpu(const CopyItem& item) {
  for (size_t row = 0; row < item.rows; ++row)
    std::memcpy(static_cast<char*>(item.to) + row * item.to_pitch,
                static_cast<const char*>(item.from) + row * item.from_pitch, item.bytes);
}

void prepare_pageable_copies() {
  prepared = true;
  static std::mutex making;
  std::lock_guard lock(making);
  if (!halves.still_pinned()) (void)PinnedBuffer::make(2 * half, &halves);
}

bool may_copy_across(int device, int owner, const void* memory) {
  if (device == owner || device < 0 || owner < 0) return true;
  Allocation found;
  return !prepared && runtime()->query(memory, &found) == Error::none && found.ordinary;
}

Submission::Submission(const CopyItem& first) : nothing_waits_(std::in_place) {
  if (nothing_waits_->may_allocate()) allocating_ = nothing_waits_->operator->();
  if (std::exchange(period, nothing_waits_->period()) != nothing_waits_->period()) known = {};
  if (nothing_waits_->may_copy_pageable()) return;
  nothing_waits_.reset();
  route_ = route_of(first);
}

Submission::Route Submission::route_of(const CopyItem& item) {
  const MemoryKind to = kind_of(item.to), from = kind_of(item.from);
  Route route;
  if (to != MemoryKind::device)
    route.direction = Direction::out;
  else if (from != MemoryKind::device)
    route.direction = Direction::in;
  if (!halves.still_pinned()) return route;
  if (to == MemoryKind::host)
    route.carried = Carried::to_host;
  else if (from == MemoryKind::host)
    route.carried = Carried::from_host;
  return route;
}

Error Submission::submit(const CopyItem* items, size_t count, Stream stream) const {
  if (!by_cpu()) return count > 1 ? runtime()->copy_batch(items, count, stream) : submit_one(*items, stream);
  Error error = Error::none;
  for (size_t i = 0; i < count && error == Error::none; ++i)
    error = copy_by_pinned(items[i], route_.carried == Carried::to_host, stream);
  return error;
}

}  // namespace fairlead::device
