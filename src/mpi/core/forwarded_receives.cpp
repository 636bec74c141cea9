// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/forwarded_receives.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "mpi/abi/real.h"
#include "mpi/core/engine.h"
#include "mpi/core/hooks.h"

namespace fairlead::mpi {
namespace {

constinit std::atomic<uint32_t> own_count{0};
// Where this rank counts the receives that hold off RTS headers.
constinit std::atomic<std::atomic<uint32_t>*> held_off{&own_count};
constinit std::atomic<bool> expected_from_outside{false};
auto& in_flight = *new ForwardedReceives;

}  // namespace

bool rts_comes_inside() {
  const node::Node* node = engine().node();
  return node && node->rts_sent();
}

bool rts_comes_from_outside() {
  return expected_from_outside.load();
}

void expect_rts_from_outside(bool expected) {
  expected_from_outside.store(expected);
}

void block_rts() {
  held_off.load(std::memory_order_relaxed)->fetch_add(1);
}

void unblock_rts() {
  held_off.load(std::memory_order_relaxed)->fetch_sub(1);
}

bool block_rts_in_time() {
  if (rts_may_come()) return false;
  block_rts();
  if (!rts_may_come()) return true;
  unblock_rts();
  return false;
}

bool holds_off_rts() {
  return held_off.load(std::memory_order_relaxed)->load() != 0;
}

void count_held_off_in(std::atomic<uint32_t>* place) {
  if (!place) place = &own_count;
  std::atomic<uint32_t>* former = held_off.load();
  if (place == former) return;
  place->store(former->load());
  held_off.store(place);
}

ForwardedReceives& forwarded_receives() {
  return in_flight;
}

size_t ForwardedReceives::home(MPI_Request request) const {
  uint64_t word = 0;
  std::memcpy(&word, &request, sizeof request);
  return static_cast<size_t>((word * 0x9e3779b97f4a7c15) >> 32) & (slots_.size() - 1);
}

size_t ForwardedReceives::find(MPI_Request request) const {
  for (size_t slot = home(request);; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].request == MPI_REQUEST_NULL) return none;
    if (slots_[slot].request == request) return slot;
  }
}

ForwardedReceive& ForwardedReceives::insert(const ForwardedReceive& receive) {
  size_t slot = home(receive.request);
  while (slots_[slot].request != MPI_REQUEST_NULL) slot = (slot + 1) & (slots_.size() - 1);
  return slots_[slot] = receive;
}

void ForwardedReceives::add(const ForwardedReceive& receive) {
  if (2 * (size_ + 1) > slots_.size()) {
    ForwardedReceive unused{};
    unused.request = MPI_REQUEST_NULL;
    auto former =
        std::exchange(slots_, std::vector<ForwardedReceive>(std::max<size_t>(64, 2 * slots_.size()), unused));
    for (const ForwardedReceive& one : former)
      if (one.request != MPI_REQUEST_NULL) insert(one);
  }
  insert(receive).order = posted_++;
  ++size_;
  --posting_;
}

void ForwardedReceives::remove(MPI_Request request) {
  if (empty()) return;
  size_t hole = find(request);
  if (hole == none) return;
  const MPI_Count bytes = slots_[hole].bytes;
  // Moves what follows into the hole, unless it would then precede its home.
  const size_t mask = slots_.size() - 1;
  for (size_t next = (hole + 1) & mask; slots_[next].request != MPI_REQUEST_NULL; next = (next + 1) & mask)
    if (((next - home(slots_[next].request)) & mask) >= ((next - hole) & mask)) {
      slots_[hole] = slots_[next];
      hole = next;
    }
  slots_[hole].request = MPI_REQUEST_NULL;
  --size_;
  unblock_rts_if_last();
  note_forwarded(bytes);
}

void ForwardedReceives::watch() {
  std::vector<ForwardedReceive> all;
  for (ForwardedReceive& slot : slots_)
    if (slot.request != MPI_REQUEST_NULL) {
      all.push_back(slot);
      slot.request = MPI_REQUEST_NULL;
    }
  size_ = 0;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.order < b.order; });
  for (const ForwardedReceive& receive : all)
    for (const Hooks& hooks : all_hooks())
      if (hooks.watch) hooks.watch(receive);
  // Two receives into one buffer go on holding RTS headers off, each by its claim.
  if (!all.empty()) unblock_rts_if_last();
}

MPI_Count longest_unasked = LLONG_MAX;

void note_long_receive() {
  for (const Hooks& hooks : all_hooks())
    if (hooks.received_long) hooks.received_long();
}

void ForwardedCompletion::begin(int count, const MPI_Request* requests) {
  count_ = count;
  now_ = requests;
  std::copy_n(requests, std::min(count, few), first_);
  if (count > few) rest_.assign(requests + few, requests + count);
}

void ForwardedCompletion::end() {
  for (int i = 0; i < count_; ++i) {
    const MPI_Request before = i < few ? first_[i] : rest_[static_cast<size_t>(i - few)];
    if (now_[i] != before) forwarded_receives().remove(before);
  }
}

}  // namespace fairlead::mpi
