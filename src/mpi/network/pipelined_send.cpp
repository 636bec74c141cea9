// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/pipelined_send.h"

#include <algorithm>

#include "base/log.h"
#include "base/options.h"
#include "mpi/abi/real.h"
#include "mpi/core/engine.h"
#include "observe/statistics.h"

namespace fairlead::mpi {

using device::Error;

PipelinedSend::PipelinedSend(int receiver, const packing::View& from, uint64_t bytes,
                             const device::Allocation& memory, bool later, bool may_offer)
    : receiver_(receiver), device_(memory.device), from_(from) {
  int world_rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  uint32_t tag = static_cast<uint32_t>(network::take_tag(receiver));
  rts_ = {engine().nonce(),
          p2p::rts_version,
          world_rank,
          tag,
          p2p::RtsKind::pipelined,
          bytes,
          network::chunk_bytes(),
          later};
  total_ = rts_.chunks();
  if (may_offer) rts_.domain = offer_.emplace(receiver, tag, memory, from, bytes).domain();
}

PipelinedSend::~PipelinedSend() {
  network::give_back_tag(receiver_, static_cast<int>(rts_.number));
}

void PipelinedSend::advance() {
  switch (offer_ ? offer_->state() : Offered::none) {
    case Offered::offered:
      return;
    case Offered::granted:
      if (!stages_what_is_granted()) return;
      break;
    case Offered::fetched:
      total_ = started_;
      if (turn_) turn_->end();
      break;
    case Offered::none:
      break;
  }
  if (!turn_) turn_.emplace(network::Direction::sending, receiver_);
  while (sent_ < posted_ && first_is_sent()) {
    chunks_.pop_front();
    ++sent_;
    network::note_progress(network::Direction::sending, receiver_);
  }
  uint64_t depth = static_cast<uint64_t>(options().network_depth);
  while (started_ < total_ && started_ - posted_ < depth && (unlimited_ || started_ - sent_ < depth) &&
         (started_ > sent_ || unlimited_ || turn_->has_come()) && start_next())
    ++started_;
  if (sent_ == total_) turn_->end();
  while (posted_ < started_ && post_next()) ++posted_;
}

// Returns false if there is no memory for the chunk now.
bool PipelinedSend::start_next() {
  const size_t bytes = failed_ ? 0 : rts_.chunk_length(started_);
  network::Chunk& chunk = chunks_.emplace_back(bytes);
  if (bytes && !chunk.buffer.data()) {
    chunks_.pop_back();
    // Chunks in flight free their memory when they have been received. So give up only if there are none, or
    // if this rank must not wait for the receiver.
    if (shortage_.lasts() && (flushes_ || started_ == sent_)) fail("there is no host memory", "for a chunk");
    return false;
  }
  shortage_.end();
  if (bytes)
    chunk.copy.start(device_, {chunk.buffer.data(), bytes}, 0, from_, started_ * rts_.chunk_bytes, bytes);
  return true;
}

// Returns false while the bytes of the chunk have not been copied.
bool PipelinedSend::post_next() {
  network::Chunk& chunk = chunks_[posted_ - sent_];
  Error copied = chunk.copy.poll();
  if (copied == Error::not_ready) return false;
  if (copied != Error::none) fail("a device buffer cannot be read", device::runtime()->error_text());
  // No chunk was in flight, so the receiver's timeout starts now.
  if (posted_ == sent_) network::note_progress(network::Direction::sending, receiver_);
  // An empty chunk shows the receiver that the bytes will not come.
  int bytes = failed_ ? 0 : static_cast<int>(rts_.chunk_length(posted_));
  if (real.Issend(chunk.buffer.data(), bytes, MPI_BYTE, receiver_, static_cast<int>(rts_.number),
                  network::communicator(), &chunk.message) != MPI_SUCCESS) {
    chunk.message = MPI_REQUEST_NULL;
    fail("the host MPI does not send", "a chunk");
  }
  return true;
}

bool PipelinedSend::first_is_sent() {
  int sent = 0;
  if (real.Test(&chunks_.front().message, &sent, MPI_STATUS_IGNORE) == MPI_SUCCESS) return sent != 0;
  fail("the host MPI does not send", "a chunk");
  return true;
}

void PipelinedSend::fail(const char* what, const char* why) {
  if (!failed_)
    log_line(LogLevel::error, "a device message to rank %d is lost: %s (%s)", receiver_, what, why);
  failed_ = true;
}

void PipelinedSend::flush_if_late(network::Time waiting_since) {
  const bool is_offered = offer_ && offer_->state() == Offered::offered;
  if (unlimited_ || started_ == total_ || (posted_ == sent_ && !is_offered)) return;
  if (!network::timed_out(network::Direction::sending, receiver_, waiting_since)) return;
  if (is_offered) offer_->withdraw();
  count(Traffic::buffered_host, rts_.bytes);
  unlimited_ = true;
}

void PipelinedSend::note_receiver_failed() {
  if (offer_) offer_->note_receiver_failed();
}

// The receiver may compute, or be unable to map the memory and wait for chunks: then this rank may block only
// when the host MPI has them. Both ranks only read the buffer.
bool PipelinedSend::stages_what_is_granted() const {
  constexpr std::chrono::milliseconds for_an_answer{10};
  return flushes_ && std::chrono::steady_clock::now() - flushes_since_ >
                         for_an_answer + network::staging_time(rts_.bytes);
}

bool PipelinedSend::flushed() const {
  if (is_granted()) return posted_ == total_;
  return !(flushes_ && shortage_.exists() && !failed_ && posted_ < total_);
}

void PipelinedSend::flush_to_host() {
  if (offer_) offer_->withdraw();
  if (!flushes_) flushes_since_ = std::chrono::steady_clock::now();
  unlimited_ = flushes_ = true;
  while (posted_ < total_) {
    uint64_t posted_before = posted_;
    advance();
    // The caller tries again until flushed(), or until the transfer fails.
    if (posted_ == posted_before && posted_ == started_) return;
  }
}

}  // namespace fairlead::mpi
