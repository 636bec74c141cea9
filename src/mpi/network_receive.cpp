// SPDX-License-Identifier: Apache-2.0

#include "mpi/network_receive.h"

#include <algorithm>

#include "base/log.h"
#include "base/options.h"
#include "base/statistics.h"
#include "mpi/network.h"
#include "mpi/operation.h"
#include "mpi/real.h"

namespace fairlead::mpi {

using device::Error;

NetworkReceive::NetworkReceive(const p2p::Descriptor& descriptor, void* to, uint64_t capacity, int device)
    : descriptor_(descriptor),
      to_(static_cast<char*>(to)),
      capacity_(capacity),
      device_(device),
      turn_(network::Direction::receiving, descriptor.sender),
      total_((descriptor.bytes + descriptor.chunk_bytes - 1) / descriptor.chunk_bytes) {}

size_t NetworkReceive::length(uint64_t chunk) const {
  return std::min(descriptor_.chunk_bytes, descriptor_.bytes - chunk * descriptor_.chunk_bytes);
}

Error NetworkReceive::advance() {
  uint64_t depth = static_cast<uint64_t>(options().network_depth);
  while (arrived_ < posted_ && next_has_arrived()) {
    ++arrived_;
    network::note_progress(network::Direction::receiving, descriptor_.sender);
  }
  while (copied_ < arrived_ && first_is_copied()) {
    chunks_.pop_front();
    ++copied_;
  }
  while (posted_ < total_ && (unlimited_ || posted_ - copied_ < depth) &&
         (posted_ > copied_ || unlimited_ || turn_.has_come()) && post_next())
    ++posted_;
  if (copied_ == total_) turn_.end();
  if (copied_ < total_) return Error::not_ready;
  if (truncated()) return Error::none;
  if (lost_) return Error::failed;
  count(Traffic::network, descriptor_.bytes);
  return Error::none;
}

// False when there is no memory for it now.
bool NetworkReceive::post_next() {
  Chunk& chunk = chunks_.emplace_back(lands_in_place() ? 0 : length(posted_));
  void* landing = lands_in_place() ? place(posted_) : static_cast<void*>(chunk.buffer.data());
  if (landing && real.Irecv(landing, static_cast<int>(length(posted_)), MPI_BYTE, descriptor_.sender,
                            static_cast<int>(descriptor_.number), network::communicator(),
                            &chunk.message) == MPI_SUCCESS)
    return true;
  chunks_.pop_back();
  return false;
}

bool NetworkReceive::next_has_arrived() {
  Chunk& chunk = chunks_[arrived_ - copied_];
  int here = 0;
  MPI_Status status;
  if (real.Test(&chunk.message, &here, &status) != MPI_SUCCESS) {
    lose("the host MPI does not receive");
    return true;
  }
  if (!here) return false;
  if (byte_count(status) != static_cast<MPI_Count>(length(arrived_)))
    lose("its sender could not read it");
  else if (!lost_ && !truncated() && !lands_in_place())
    chunk.error = chunk.copy.start(device_, place(arrived_), chunk.buffer.data(), length(arrived_));
  return true;
}

bool NetworkReceive::first_is_copied() {
  Chunk& chunk = chunks_.front();
  if (chunk.error == Error::none) chunk.error = chunk.copy.poll();
  if (chunk.error == Error::not_ready) {
    chunk.error = Error::none;
    return false;
  }
  // A copy may fail where the next one does not.
  if (chunk.error != Error::none &&
      device::copy_now(device_, place(copied_), chunk.buffer.data(), length(copied_)) != Error::none)
    lose("it cannot be written to device memory");
  return true;
}

void NetworkReceive::lose(const char* what) {
  if (!lost_) log_line(LogLevel::error, "a device message from rank %d is lost: %s", descriptor_.sender, what);
  lost_ = true;
}

}  // namespace fairlead::mpi
