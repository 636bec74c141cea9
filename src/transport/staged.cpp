// SPDX-License-Identifier: Apache-2.0

#include "transport/staged.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "device/classify.h"
#include "device/copies/submit_copies.h"

namespace fairlead::transport {
namespace {

using device::Error;
using node::chunks_in_flight;
using node::Reason;
using node::RendezvousState;

// A message moves in pieces so that the sender's copies overlap the receiver's. Each piece has an overhead of
// some microseconds, which is longer than a copy inside the device takes. In device memory, pieces are
// therefore as long as possible.
uint64_t piece_of(uint64_t bytes, Medium medium) {
  constexpr uint64_t smallest = uint64_t{256} << 10, pieces = 8, granule = 4096;
  if (medium == Medium::device) return std::max(bytes, uint64_t{1});
  return std::max(smallest, (bytes / pieces + granule - 1) / granule * granule);
}

// Of ranges for which there is no address space.
constexpr uint64_t small_piece = uint64_t{256} << 10;

constexpr int refusals_allowed = 3;
constexpr uint64_t produced_failed = UINT64_MAX;

}  // namespace

StagedSender::StagedSender(Node& node, Rendezvous& rendezvous, int receiver, int device,
                           const packing::View& from, uint64_t bytes, Medium medium)
    : node_(node), rendezvous_(rendezvous), receiver_(receiver), device_(device), from_(from), bytes_(bytes) {
  if (medium == Medium::device) arena_ = device_arena(node, device, bytes);
  if (arena_) {
    medium_ = Medium::device;
    rendezvous_.source = node.mine().probes[device].memory;  // the pool as a whole
  } else {
    arena_ = host_arena(node);
  }
  // Without an arena, the whole message is flushed to host memory, in one piece.
  chunk_bytes_ = arena_ ? std::min(arena_->chunk_bytes(), piece_of(bytes, medium_)) : bytes;
  total_ = (bytes + chunk_bytes_ - 1) / chunk_bytes_;
  rendezvous_.medium = medium_;
  rendezvous_.chunk_bytes = chunk_bytes_;
  rendezvous_.chunk_count = total_;
  rendezvous_.produced.store(0, std::memory_order_relaxed);
  rendezvous_.consumed.store(0, std::memory_order_relaxed);
  rendezvous_.flushed.store(0, std::memory_order_relaxed);
  rendezvous_.awaited.store(0, std::memory_order_relaxed);
  rendezvous_.state.store(RendezvousState::pipelined, std::memory_order_release);
  advance();
}

StagedSender::~StagedSender() {
  finish();
}

uint64_t StagedSender::length(uint64_t chunk) const {
  return std::min(chunk_bytes_, bytes_ - chunk * chunk_bytes_);
}

// No receiver can have consumed other numbers of chunks, and nobody else stores what this rank has stored.
bool StagedSender::words_are_sound() {
  const uint64_t consumed = rendezvous_.consumed.load(std::memory_order_acquire);
  return consumed >= returned_ && consumed <= produced_ &&
         rendezvous_.produced.load(std::memory_order_relaxed) == produced_ &&
         rendezvous_.flushed.load(std::memory_order_relaxed) == flushed_;
}

void StagedSender::take_back_consumed() {
  const uint64_t consumed = std::min(rendezvous_.consumed.load(std::memory_order_acquire), produced_);
  for (; returned_ < consumed; ++returned_) arena_->give_back(chunks_[returned_ % chunks_in_flight]);
}

void StagedSender::advance() {
  if (failed_) return;
  if (!words_are_sound()) return fail(Reason::damaged, "its chunks are miscounted");
  if (!arena_) return flush_to_host(Need::required);
  take_back_consumed();
  while (!flushed_ && started_ < total_ && started_ - returned_ < chunks_in_flight) {
    std::optional<uint64_t> chunk = arena_->take(length(started_));
    if (!chunk) {
      // All chunks may be held by messages that are received only after this one. The receiver may also be
      // late and not wait for bytes yet.
      if (started_ == returned_ && arena_->stuck())
        return flush_to_host(rendezvous_.awaited.load(std::memory_order_acquire) ? Need::required
                                                                                 : Need::wanted);
      break;
    }
    int slot = static_cast<int>(started_ % chunks_in_flight);
    Error error = copies_[slot].start(device_, {arena_->at(*chunk), length(started_)}, 0, from_,
                                      started_ * chunk_bytes_, length(started_));
    if (error != Error::none) {
      arena_->give_back(*chunk);
      return fail(Reason::copy_failed, device::runtime()->error_text());
    }
    rendezvous_.chunks[slot] = chunks_[slot] = *chunk;
    ++started_;
  }
  while (produced_ < started_) {
    Error error = copies_[produced_ % chunks_in_flight].poll();
    if (error == Error::not_ready) return;
    if (error != Error::none) return fail(Reason::copy_failed, device::runtime()->error_text());
    rendezvous_.produced.store(++produced_, std::memory_order_release);
  }
}

void StagedSender::flush_to_host(Need need) {
  while (!failed_ && !flushed_ && produced_ < started_) advance();
  if (failed_ || read_out()) return;
  const uint64_t from = started_ * chunk_bytes_;
  rest_ = {};
  rest_ = node_.memory().create(bytes_ - from);
  const Error error = rest_ ? fill_rest(from) : Error::out_of_memory;
  if (error == Error::out_of_memory) {
    // While there is an arena, a receiver may still receive the whole message.
    if (need == Need::required && shortage_.lasts()) fail(Reason::no_memory, std::strerror(errno));
    return;
  }
  if (error != Error::none) return fail(Reason::copy_failed, device::runtime()->error_text());
  shortage_.end();
  rendezvous_.flushed_from = started_;
  rendezvous_.flushed_bytes = bytes_ - from;
  rendezvous_.flushed_offset = rest_.offset();
  flushed_ = true;
  rendezvous_.flushed.store(1, std::memory_order_release);
}

Error StagedSender::fill_rest(uint64_t from) {
  if (rest_.data()) return packing::copy_out(device_, rest_.data(), from_, from, bytes_ - from);
  return packing::by_pieces(bytes_ - from, small_piece, [&](uint64_t at, void* piece, uint64_t bytes) {
    const Error error = packing::copy_out(device_, piece, from_, from + at, bytes);
    return error == Error::none && !rest_.write(at, piece, bytes) ? Error::out_of_memory : error;
  });
}

void StagedSender::fail(Reason reason, const char* what) {
  failed_ = true;
  log_line(LogLevel::error, "a device message of %llu bytes to rank %d is lost: %s: %s",
           static_cast<unsigned long long>(bytes_), node_.world_rank(receiver_), node::to_string(reason),
           what);
  rendezvous_.reason.store(reason, std::memory_order_relaxed);
  rendezvous_.produced.store(produced_failed, std::memory_order_release);
}

void StagedSender::abandon() {
  for (packing::Move& copy : copies_) copy.wait();
  failed_ = true;
  rendezvous_.reason.store(Reason::abandoned, std::memory_order_relaxed);
  rendezvous_.produced.store(produced_failed, std::memory_order_release);
}

void StagedSender::refuse(Rendezvous& rendezvous, uint64_t bytes) {
  rendezvous.medium = Medium::host;
  rendezvous.chunk_bytes = bytes;
  rendezvous.chunk_count = 1;
  rendezvous.consumed.store(0, std::memory_order_relaxed);
  rendezvous.flushed.store(0, std::memory_order_relaxed);
  rendezvous.reason.store(Reason::abandoned, std::memory_order_relaxed);
  rendezvous.produced.store(produced_failed, std::memory_order_relaxed);
  rendezvous.state.store(RendezvousState::pipelined, std::memory_order_release);
}

void StagedSender::finish() {
  for (packing::Move& copy : copies_) copy.wait();
  for (; returned_ < started_; ++returned_) arena_->give_back(chunks_[returned_ % chunks_in_flight]);
}

StagedReceiver::StagedReceiver(Node& node, int owner, Rendezvous& rendezvous, int device,
                               const packing::View& to, uint64_t bytes)
    : node_(node),
      owner_(owner),
      rendezvous_(rendezvous),
      device_(device),
      home_(device),
      to_(to),
      medium_(node::read_once(rendezvous.medium)),
      bytes_(bytes),
      chunk_bytes_(std::max(node::read_once(rendezvous.chunk_bytes), uint64_t{1})),
      total_(bytes / chunk_bytes_ + (bytes % chunk_bytes_ != 0)),
      sound_(medium_ <= Medium::device && total_ == node::read_once(rendezvous.chunk_count)) {
  if (through_device() && device_ < 0) device_ = device::device_in_use();
  rendezvous_.awaited.store(1, std::memory_order_release);
}

uint64_t StagedReceiver::length(uint64_t chunk) const {
  return std::min(chunk_bytes_, bytes_ - chunk * chunk_bytes_);
}

Error StagedReceiver::copy_chunk(uint64_t chunk) {
  const uint64_t at = chunk * chunk_bytes_, bytes = length(chunk),
                 offset = node::read_once(rendezvous_.chunks[chunk % chunks_in_flight]);
  if (!arena_.holds(offset, bytes)) return Error::invalid_value;
  const char* from = arena_.chunk_at(offset);
  if (from &&
      (device_ == home_ || (to_.contiguous() && device::may_copy_across(device_, home_, to_.address()))))
    return copies_[chunk % chunks_in_flight].start(device_, to_, at, {const_cast<char*>(from), bytes}, 0,
                                                   bytes);
  // The device that can access the chunk may be unable to access the buffer, and no device can access a chunk
  // that is not mapped.
  return packing::by_pieces(bytes, packing::longest_piece, [&](uint64_t done, void* piece, uint64_t some) {
    Error error = Error::none;
    if (from)
      error = device::copy_now(device_, piece, from + done, some);
    else if (!arena_.read(offset + done, piece, some))
      error = Error::failed;
    return error == Error::none ? packing::copy_in(home_, to_, at + done, piece, some) : error;
  });
}

Error StagedReceiver::copy_rest(uint64_t from) {
  const uint64_t bytes = bytes_ - from;
  const node::NodeMemory::Range rest = node_.memory().open(rendezvous_.flushed_offset, bytes);
  if (!rest || rendezvous_.flushed_bytes != bytes) return Error::invalid_value;
  if (rest.data()) return packing::copy_in(home_, to_, from, rest.data(), bytes);
  return packing::by_pieces(bytes, small_piece, [&](uint64_t at, void* piece, uint64_t some) {
    return rest.read(at, piece, some) ? packing::copy_in(home_, to_, from + at, piece, some) : Error::failed;
  });
}

Error StagedReceiver::lost(const char* what) {
  what_failed_ = what;
  return Error::failed;
}

Error StagedReceiver::short_of_memory() {
  return shortage_.lasts() ? lost("there is no host memory to receive it") : Error::not_ready;
}

Error StagedReceiver::advance() {
  const bool flushed = rendezvous_.flushed.load(std::memory_order_acquire);
  const uint64_t produced = rendezvous_.produced.load(std::memory_order_acquire);
  if (produced == produced_failed) return lost(node::to_string(rendezvous_.reason.load()));
  // No correct sender is further ahead of what this rank has consumed, or produces anything behind a flush,
  // and nobody else stores how much that is.
  if (!sound_ || rendezvous_.consumed.load(std::memory_order_relaxed) != finished_ || produced > total_ ||
      produced < started_ || produced > finished_ + chunks_in_flight ||
      (flushed && produced != rendezvous_.flushed_from))
    return lost(node::to_string(Reason::damaged));
  if (produced) {
    if (!arena_.open(node_, owner_, rendezvous_, medium_, &device_))
      return ++refusals_ > refusals_allowed ? lost("its sender's memory cannot be mapped") : Error::not_ready;
    for (; started_ < produced; ++started_) {
      Error error = copy_chunk(started_);
      if (error == Error::out_of_memory) return short_of_memory();
      if (error != Error::none) return lost("it cannot be copied");
      shortage_.end();
    }
    while (finished_ < started_) {
      Error error = copies_[finished_ % chunks_in_flight].poll();
      if (error == Error::not_ready) return error;
      if (error != Error::none) return lost("it cannot be copied");
      rendezvous_.consumed.store(++finished_, std::memory_order_release);
    }
  }
  if (finished_ == total_) return Error::none;
  if (!flushed) return Error::not_ready;
  Error error = copy_rest(finished_ * chunk_bytes_);
  if (error == Error::out_of_memory) return short_of_memory();
  return error == Error::none ? error : lost("it cannot be copied");
}

}  // namespace fairlead::transport
