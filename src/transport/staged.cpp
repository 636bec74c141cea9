// SPDX-License-Identifier: Apache-2.0

#include "transport/staged.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "base/log.h"
#include "base/options.h"

namespace fairlead::transport {
namespace {

using device::Error;
using node::chunks_in_flight;
using node::OfferState;
using node::RankBlock;
using node::SharedMemory;

constexpr auto starvation = std::chrono::milliseconds(1);
constexpr int retries_allowed = 3;
constexpr uint64_t produced_failed = UINT64_MAX;

// Pinning is for speed only; a driver that refuses costs bandwidth, not correctness.
void pin(const SharedMemory& memory) {
  if (device::runtime()->register_host(memory.data(), memory.size()) != Error::none)
    log_line(LogLevel::info, "staging memory could not be pinned: %s", device::runtime()->error_text());
}

// This rank's own arena.
struct Arena {
  SharedMemory memory;
  uint64_t chunk_bytes = 0;
  std::vector<uint32_t> idle;
  std::chrono::steady_clock::time_point last_return{};
  size_t chunks = 0;

  bool open(Node& node) {
    if (chunk_bytes) return chunks > 0;
    chunk_bytes = (options().staging_chunk + 4095) / 4096 * 4096;
    uint64_t count = options().staging_arena / chunk_bytes;
    if (count == 0) return false;
    memory = SharedMemory::create(count * chunk_bytes);
    if (!memory) return false;
    pin(memory);
    chunks = count;
    for (uint64_t i = count; i-- > 0;) idle.push_back(static_cast<uint32_t>(i));
    node.mine().arena_bytes = memory.size();
    node.mine().arena_fd.store(memory.fd() + 1, std::memory_order_release);
    return true;
  }
};

Arena& arena() {
  static auto* own = new Arena;
  return *own;
}

// The arena of another rank, mapped and pinned here too at first use; null when that is impossible.
const unsigned char* arena_of(Node& node, int owner) {
  if (owner == node.rank()) return arena().memory.data();
  static auto& opened = *new std::map<int, SharedMemory>;
  SharedMemory& memory = opened[owner];
  if (!memory) {
    RankBlock& block = node.block(owner);
    int fd = block.arena_fd.load(std::memory_order_acquire) - 1;
    memory = SharedMemory::open(block.pid, fd, block.arena_bytes);
    if (memory && device::runtime() && device::runtime()->in_use()) pin(memory);
  }
  return memory.data();
}

}  // namespace

StagedSender::StagedSender(Node& node, Offer& offer, int device, const void* from, uint64_t bytes)
    : node_(node), offer_(offer), device_(device), from_(static_cast<const char*>(from)), bytes_(bytes) {
  bool usable = arena().open(node);
  offer_.chunk_bytes = arena().chunk_bytes;
  total_ = (bytes + offer_.chunk_bytes - 1) / offer_.chunk_bytes;
  offer_.produced.store(0, std::memory_order_relaxed);
  offer_.consumed.store(0, std::memory_order_relaxed);
  offer_.spilled.store(0, std::memory_order_relaxed);
  offer_.state.store(OfferState::streaming, std::memory_order_release);
  if (usable)
    advance();
  else
    spill();
}

StagedSender::~StagedSender() {
  finish();
}

uint64_t StagedSender::length(uint64_t chunk) const {
  return std::min(offer_.chunk_bytes, bytes_ - chunk * offer_.chunk_bytes);
}

void StagedSender::take_back_consumed() {
  uint64_t consumed = offer_.consumed.load(std::memory_order_acquire);
  if (returned_ < consumed) arena().last_return = std::chrono::steady_clock::now();
  for (; returned_ < consumed; ++returned_)
    arena().idle.push_back(offer_.chunks[returned_ % chunks_in_flight]);
}

// All chunks may be held by messages that are received only after this one.
bool StagedSender::starves() const {
  return started_ == returned_ && started_ < total_ && !spilled_ && arena().idle.empty() &&
         std::chrono::steady_clock::now() - arena().last_return > starvation;
}

void StagedSender::advance() {
  if (failed_) return;
  take_back_consumed();
  if (starves()) return spill();
  while (!spilled_ && started_ < total_ && started_ - returned_ < chunks_in_flight && !arena().idle.empty()) {
    uint32_t chunk = arena().idle.back();
    int slot = static_cast<int>(started_ % chunks_in_flight);
    Error error = copies_[slot].start(device_, arena().memory.data() + chunk * offer_.chunk_bytes,
                                      from_ + started_ * offer_.chunk_bytes, length(started_));
    if (error != Error::none) {
      if (++retries_ > retries_allowed) fail();
      return;
    }
    arena().idle.pop_back();
    offer_.chunks[slot] = chunk;
    ++started_;
  }
  while (produced_ < started_) {
    int slot = static_cast<int>(produced_ % chunks_in_flight);
    Error error = copies_[slot].poll();
    if (error == Error::not_ready) return;
    if (error != Error::none) {
      if (++retries_ > retries_allowed) return fail();
      error = copies_[slot].start(device_, arena().memory.data() + offer_.chunks[slot] * offer_.chunk_bytes,
                                  from_ + produced_ * offer_.chunk_bytes, length(produced_));
      if (error != Error::none) return fail();
      continue;
    }
    offer_.produced.store(++produced_, std::memory_order_release);
  }
}

void StagedSender::spill() {
  while (!failed_ && produced_ < started_) advance();
  if (failed_ || read_out()) return;
  uint64_t from = started_ * offer_.chunk_bytes, bytes = bytes_ - from;
  rest_ = SharedMemory::create(bytes);
  if (!rest_) return;  // no memory: the receiver gets the rest when this rank makes progress again
  if (device::copy_now(device_, rest_.data(), from_ + from, bytes) != Error::none) return fail();
  offer_.spilled_from = started_;
  offer_.spill_bytes = bytes;
  offer_.spill_fd = rest_.fd();
  spilled_ = true;
  offer_.spilled.store(1, std::memory_order_release);
}

void StagedSender::fail() {
  failed_ = true;
  log_line(LogLevel::error, "a staged device message is lost: %s", device::runtime()->error_text());
  offer_.produced.store(produced_failed, std::memory_order_release);
}

void StagedSender::finish() {
  for (device::Copy& copy : copies_) copy.wait();
  for (; returned_ < started_; ++returned_)
    arena().idle.push_back(offer_.chunks[returned_ % chunks_in_flight]);
}

StagedReceiver::StagedReceiver(Node& node, int owner, Offer& offer, int device, void* to, uint64_t bytes)
    : node_(node), owner_(owner), offer_(offer), device_(device), to_(static_cast<char*>(to)), bytes_(bytes) {
  total_ = (bytes + offer_.chunk_bytes - 1) / offer_.chunk_bytes;
}

uint64_t StagedReceiver::length(uint64_t chunk) const {
  return std::min(offer_.chunk_bytes, bytes_ - chunk * offer_.chunk_bytes);
}

Error StagedReceiver::advance() {
  bool spilled = offer_.spilled.load(std::memory_order_acquire);
  uint64_t produced = offer_.produced.load(std::memory_order_acquire);
  if (produced == produced_failed) return Error::failed;
  produced = std::min(produced, total_);
  if (produced) {
    const unsigned char* arena = arena_of(node_, owner_);
    if (!arena) return Error::failed;
    auto start = [&](uint64_t chunk) {
      return copies_[chunk % chunks_in_flight].start(
          device_, to_ + chunk * offer_.chunk_bytes,
          arena + offer_.chunks[chunk % chunks_in_flight] * offer_.chunk_bytes, length(chunk));
    };
    while (started_ < produced) {
      if (start(started_) == Error::none)
        ++started_;
      else if (++retries_ > retries_allowed)
        return Error::failed;
    }
    while (finished_ < started_) {
      Error error = copies_[finished_ % chunks_in_flight].poll();
      if (error == Error::not_ready) return error;
      if (error != Error::none) {
        if (++retries_ > retries_allowed || start(finished_) != Error::none) return Error::failed;
        continue;
      }
      offer_.consumed.store(++finished_, std::memory_order_release);
    }
  }
  if (finished_ == total_) return Error::none;
  if (spilled && finished_ == offer_.spilled_from) {
    SharedMemory rest = SharedMemory::open(node_.block(owner_).pid, offer_.spill_fd, offer_.spill_bytes);
    if (!rest) return Error::failed;
    uint64_t from = finished_ * offer_.chunk_bytes;
    return device::copy_now(device_, to_ + from, rest.data(), bytes_ - from);
  }
  return Error::not_ready;
}

size_t staged_chunks_in_use() {
  return arena().chunks - arena().idle.size();
}

}  // namespace fairlead::transport
