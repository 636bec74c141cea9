// SPDX-License-Identifier: Apache-2.0

#include "transport/staged.h"

#include <algorithm>

#include "base/host_buffer.h"
#include "base/log.h"
#include "device/classify.h"

namespace fairlead::transport {
namespace {

using device::Error;
using node::chunks_in_flight;
using node::OfferState;
using node::SharedMemory;

// Both copies of a message overlap by pieces. Each costs some microseconds of its own, which is longer than a
// copy inside the device takes: through its memory, pieces are as long as they may be.
uint64_t piece_of(uint64_t bytes, Medium medium) {
  constexpr uint64_t smallest = uint64_t{256} << 10, pieces = 8, granule = 4096;
  if (medium == Medium::device) return std::max(bytes, uint64_t{1});
  return std::max(smallest, (bytes / pieces + granule - 1) / granule * granule);
}

constexpr int refusals_allowed = 3;
constexpr uint64_t produced_failed = UINT64_MAX;

}  // namespace

StagedSender::StagedSender(Node& node, Offer& offer, int device, const datatype::View& from, uint64_t bytes,
                           Medium medium)
    : offer_(offer), device_(device), from_(from), bytes_(bytes) {
  if (medium == Medium::device) arena_ = device_arena(node, device, bytes);
  offer_.medium = arena_ ? Medium::device : Medium::host;
  if (arena_)
    offer_.source = node.mine().proofs[device].memory;  // the pool as a whole
  else
    arena_ = host_arena(node);
  // Without any arena all of it is spilled, in one piece.
  offer_.chunk_bytes = arena_ ? std::min(arena_->chunk_bytes(), piece_of(bytes, offer_.medium)) : bytes;
  total_ = (bytes + offer_.chunk_bytes - 1) / offer_.chunk_bytes;
  offer_.produced.store(0, std::memory_order_relaxed);
  offer_.consumed.store(0, std::memory_order_relaxed);
  offer_.spilled.store(0, std::memory_order_relaxed);
  offer_.state.store(OfferState::streaming, std::memory_order_release);
  if (arena_)
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
  for (; returned_ < consumed; ++returned_) arena_->give_back(offer_.chunks[returned_ % chunks_in_flight]);
}

void StagedSender::advance() {
  if (failed_) return;
  if (!arena_) return spill();
  take_back_consumed();
  while (!spilled_ && started_ < total_ && started_ - returned_ < chunks_in_flight) {
    std::optional<uint64_t> chunk = arena_->take(length(started_));
    if (!chunk) {
      // All chunks may be held by messages that are received only after this one.
      if (started_ == returned_ && arena_->stuck()) return spill();
      break;
    }
    int slot = static_cast<int>(started_ % chunks_in_flight);
    Error error = copies_[slot].start(device_, {arena_->at(*chunk), length(started_)}, 0, from_,
                                      started_ * offer_.chunk_bytes, length(started_));
    if (error != Error::none) {
      arena_->give_back(*chunk);
      return fail();
    }
    offer_.chunks[slot] = *chunk;
    ++started_;
  }
  while (produced_ < started_) {
    Error error = copies_[produced_ % chunks_in_flight].poll();
    if (error == Error::not_ready) return;
    if (error != Error::none) return fail();
    offer_.produced.store(++produced_, std::memory_order_release);
  }
}

void StagedSender::spill() {
  while (!failed_ && produced_ < started_) advance();
  if (failed_ || read_out()) return;
  uint64_t from = started_ * offer_.chunk_bytes, bytes = bytes_ - from;
  rest_ = SharedMemory::create(bytes);
  if (!rest_) return;  // no memory: the receiver gets the rest when this rank makes progress again
  if (datatype::copy_out(device_, rest_.data(), from_, from, bytes) != Error::none) return fail();
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
  for (datatype::Move& copy : copies_) copy.wait();
  for (; returned_ < started_; ++returned_) arena_->give_back(offer_.chunks[returned_ % chunks_in_flight]);
}

StagedReceiver::StagedReceiver(Node& node, int owner, Offer& offer, int device, const datatype::View& to,
                               uint64_t bytes)
    : node_(node), owner_(owner), offer_(offer), device_(device), home_(device), to_(to), bytes_(bytes) {
  total_ = (bytes + offer_.chunk_bytes - 1) / offer_.chunk_bytes;
  if (through_device() && device_ < 0) device_ = device::device_in_use();
}

uint64_t StagedReceiver::length(uint64_t chunk) const {
  return std::min(offer_.chunk_bytes, bytes_ - chunk * offer_.chunk_bytes);
}

Error StagedReceiver::land(uint64_t chunk, const char* from) {
  uint64_t at = chunk * offer_.chunk_bytes, bytes = length(chunk);
  datatype::View chunk_bytes(const_cast<char*>(from), bytes);
  if (to_.contiguous() || device_ == home_)
    return copies_[chunk % chunks_in_flight].start(device_, to_, at, chunk_bytes, 0, bytes);
  // The device that reaches the chunk need not reach the buffer.
  HostBuffer between(bytes);
  if (!between.data()) return Error::out_of_memory;
  Error error = device::copy_now(device_, between.data(), from, bytes);
  return error == Error::none ? datatype::copy_in(home_, to_, at, between.data(), bytes) : error;
}

Error StagedReceiver::advance() {
  bool spilled = offer_.spilled.load(std::memory_order_acquire);
  uint64_t produced = offer_.produced.load(std::memory_order_acquire);
  if (produced == produced_failed) return Error::failed;
  produced = std::min(produced, total_);
  if (produced) {
    const char* arena = arena_.open(node_, owner_, offer_, &device_);
    if (!arena) return ++refusals_ > refusals_allowed ? Error::failed : Error::not_ready;
    for (; started_ < produced; ++started_) {
      Error error = land(started_, arena + offer_.chunks[started_ % chunks_in_flight]);
      if (error != Error::none) return Error::failed;
    }
    while (finished_ < started_) {
      Error error = copies_[finished_ % chunks_in_flight].poll();
      if (error == Error::not_ready) return error;
      if (error != Error::none) return Error::failed;
      offer_.consumed.store(++finished_, std::memory_order_release);
    }
  }
  if (finished_ == total_) return Error::none;
  if (spilled && finished_ == offer_.spilled_from) {
    SharedMemory rest = SharedMemory::open(node_.block(owner_).pid, offer_.spill_fd, offer_.spill_bytes);
    if (!rest) return Error::failed;
    uint64_t from = finished_ * offer_.chunk_bytes;
    return datatype::copy_in(home_, to_, from, rest.data(), bytes_ - from);
  }
  return Error::not_ready;
}

}  // namespace fairlead::transport
