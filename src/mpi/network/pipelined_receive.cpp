// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/pipelined_receive.h"

#include <algorithm>

#include "base/log.h"
#include "base/options.h"
#include "mpi/abi/real.h"
#include "mpi/core/operation.h"
#include "mpi/network/network.h"
#include "observe/statistics.h"

namespace fairlead::mpi {

using device::Error;

PipelinedReceive::PipelinedReceive(const p2p::RtsHeader& rts, const packing::View& to, uint64_t capacity,
                                   int device)
    : rts_(rts),
      to_(to),
      capacity_(capacity),
      device_(device),
      claim_(rts, to, capacity, device),
      total_(rts.chunks()) {}

void PipelinedReceive::take_turn() {
  turn_.emplace(network::Direction::receiving, rts_.sender);
}

// Transfers that cannot begin yet do not delay others: they post one receive.
bool PipelinedReceive::may_post() const {
  if (unlimited_) return true;
  return turn_ ? posted_ > copied_ || turn_->has_come() : posted_ == 0;
}

Error PipelinedReceive::advance() {
  if (const Error claimed = claim_.advance(); claimed == Error::not_ready) {
    return claimed;
  } else if (claimed == Error::none) {
    count(path_ = Traffic::peer_between_nodes, rts_.bytes);
    return claimed;
  }
  if (!turn_ && !rts_.comes_later) take_turn();
  uint64_t depth = static_cast<uint64_t>(options().network_depth);
  while (arrived_ < posted_ && next_has_arrived()) {
    ++arrived_;
    if (!turn_) take_turn();
    network::note_progress(network::Direction::receiving, rts_.sender);
  }
  while (copied_ < arrived_ && first_is_copied()) {
    chunks_.pop_front();
    ++copied_;
  }
  while (posted_ < total_ && (unlimited_ || posted_ - copied_ < depth) && may_post() && post_next())
    ++posted_;
  if (copied_ == total_ && turn_) turn_->end();
  if (copied_ < total_) return Error::not_ready;
  if (truncated()) return Error::none;
  if (lost_) return Error::failed;
  count(Traffic::network, rts_.bytes);
  return Error::none;
}

// Returns false if there is no memory for the chunk now, or the host MPI does not accept the receive.
bool PipelinedReceive::post_next() {
  size_t bytes = rts_.chunk_length(posted_);
  const bool own_buffer = !receives_in_place() && !lost_;
  network::Chunk& chunk = chunks_.emplace_back(own_buffer ? bytes : 0);
  void* destination = network::nowhere();
  if (own_buffer)
    destination = chunk.buffer.data();
  else if (receives_in_place())
    destination = chunk_address(posted_);
  if (destination)
    shortage_.end();
  else if (shortage_.lasts() && posted_ == copied_)
    lose("there is no host memory for its chunks");
  if (destination &&
      real.Irecv(destination, static_cast<int>(bytes), MPI_BYTE, rts_.sender, static_cast<int>(rts_.number),
                 network::communicator(), &chunk.message) == MPI_SUCCESS)
    return true;
  chunks_.pop_back();
  return false;
}

bool PipelinedReceive::next_has_arrived() {
  network::Chunk& chunk = chunks_[arrived_ - copied_];
  int here = 0;
  MPI_Status status;
  if (real.Test(&chunk.message, &here, &status) != MPI_SUCCESS) {
    lose("the host MPI does not receive");
    return true;
  }
  if (!here) return false;
  if (byte_count(status) != static_cast<MPI_Count>(rts_.chunk_length(arrived_)))
    lose("its sender could not read it");
  else if (!lost_ && !truncated() && !receives_in_place())
    chunk.copy.start(device_, to_, arrived_ * rts_.chunk_bytes,
                     {chunk.buffer.data(), rts_.chunk_length(arrived_)}, 0, rts_.chunk_length(arrived_));
  return true;
}

bool PipelinedReceive::first_is_copied() {
  Error copied = chunks_.front().copy.poll();
  if (copied == Error::not_ready) return false;
  if (copied != Error::none) lose("it cannot be written to device memory");
  return true;
}

void PipelinedReceive::lose(const char* what) {
  if (!lost_) log_line(LogLevel::error, "a device message from rank %d is lost: %s", rts_.sender, what);
  lost_ = true;
}

}  // namespace fairlead::mpi
