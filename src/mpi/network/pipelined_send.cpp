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

PipelinedSend::PipelinedSend(int receiver, const packing::View& from, uint64_t bytes, int device, bool later)
    : receiver_(receiver), device_(device), from_(from) {
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
}

PipelinedSend::~PipelinedSend() {
  network::give_back_tag(receiver_, static_cast<int>(rts_.number));
}

void PipelinedSend::advance() {
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
  if (unlimited_ || started_ == total_ || posted_ == sent_) return;
  if (!network::timed_out(network::Direction::sending, receiver_, waiting_since)) return;
  count(Traffic::buffered_host, rts_.bytes);
  unlimited_ = true;
}

void PipelinedSend::flush_to_host() {
  unlimited_ = flushes_ = true;
  while (posted_ < total_) {
    uint64_t posted_before = posted_;
    advance();
    // Without memory the caller tries again while quiesced() is false, until the transfer fails.
    if (posted_ == posted_before && posted_ == started_) return;
  }
}

}  // namespace fairlead::mpi
