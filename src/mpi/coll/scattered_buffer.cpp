// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/scattered_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <random>

#include "base/memory/page_size.h"
#include "base/system/processor.h"

namespace fairlead::mpi {
namespace {

constexpr uintptr_t lowest = uintptr_t{1} << 16, end_of_addresses = uintptr_t{1} << address_bits;
// Most of the address space is free, so few attempts fail. The first ones go less far, since sanitizers use
// most of it.
constexpr int attempts = 96, scales = 12;
constexpr ptrdiff_t shortest_scale = ptrdiff_t{64} << 30;

void unmap(uintptr_t begin, uintptr_t end) {
  munmap(reinterpret_cast<void*>(begin), end - begin);
}

}  // namespace

// Asks for the place and does not demand it: the thread sanitizer ends a process that demands a wrong one.
ScatteredBuffer::Outcome ScatteredBuffer::map(uintptr_t begin, uintptr_t end) {
  void* const wanted = reinterpret_cast<void*>(begin);
  void* const found =
      mmap(wanted, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == wanted) return Outcome::mapped;
  if (found == MAP_FAILED) return Outcome::no_memory;
  munmap(found, end - begin);
  return Outcome::taken;
}

ScatteredBuffer::ScatteredBuffer(std::vector<Range> ranges) {
  const auto page = static_cast<ptrdiff_t>(page_size());
  const uintptr_t highest = end_of_addresses - page_size();
  std::ranges::sort(ranges, {}, &Range::begin);
  for (const Range& range : ranges) {
    const Range pages = {range.begin / page_size() * page_size(), whole_pages(range.end)};
    if (pieces_.empty() || pages.begin > pieces_.back().end + near)
      pieces_.push_back(pages);
    else
      pieces_.back().end = std::max(pieces_.back().end, pages.end);
  }
  if (pieces_.empty() || pieces_.front().begin < lowest || pieces_.back().end > highest) return;
  const auto room_below = static_cast<ptrdiff_t>(pieces_.front().begin - lowest),
             room_above = static_cast<ptrdiff_t>(highest - pieces_.back().end);
  thread_local std::minstd_rand random(std::random_device{}());
  Outcome outcome = Outcome::taken;
  for (int attempt = 0; attempt < attempts && outcome == Outcome::taken; ++attempt) {
    const ptrdiff_t scale = shortest_scale << attempt % scales;
    std::uniform_int_distribution<ptrdiff_t> pages(-std::min(scale, room_below) / page,
                                                   std::min(scale, room_above) / page);
    const ptrdiff_t distance = pages(random) * page;
    if (distance == 0) continue;
    outcome = map_at(distance);
    if (outcome == Outcome::mapped) distance_ = distance;
  }
}

ScatteredBuffer::Outcome ScatteredBuffer::map_at(ptrdiff_t distance) {
  const auto by = static_cast<uintptr_t>(distance);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Outcome outcome = map(pieces_[i].begin + by, pieces_[i].end + by);
    if (outcome == Outcome::mapped) continue;
    for (size_t before = 0; before < i; ++before) unmap(pieces_[before].begin + by, pieces_[before].end + by);
    return outcome;
  }
  return Outcome::mapped;
}

ScatteredBuffer::~ScatteredBuffer() {
  if (distance_ == 0) return;
  const auto by = static_cast<uintptr_t>(distance_);
  for (const Range& piece : pieces_) unmap(piece.begin + by, piece.end + by);
}

}  // namespace fairlead::mpi
