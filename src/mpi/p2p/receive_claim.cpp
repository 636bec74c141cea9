// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/receive_claim.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "mpi/core/communicator.h"
#include "mpi/core/engine.h"
#include "mpi/network/network.h"

namespace fairlead::mpi {

// The receives in flight into one address: all of them, and those that use the user's buffer.
struct ReceiveClaim::Receives {
  unsigned all = 0;
  unsigned receives_there = 0;
};

namespace {

std::mutex mutex;
// The number of addresses above which those without receives are forgotten.
size_t remembered = 4096;

// True if the message could be an RTS header from another node. The receiver does not know what that node
// sends, but only messages longer than a chunk are pipelined.
bool comes_from_outside(MPI_Count bytes, int source, MPI_Comm comm) {
  if (bytes <= static_cast<MPI_Count>(network::chunk_bytes())) return false;
  return source == MPI_ANY_SOURCE ? network::exists() : network::reaches(rank_in_world(comm, source));
}

}  // namespace

ReceiveClaim::ReceiveClaim(const void* address, MPI_Count bytes, int source, MPI_Comm comm) {
  static auto& places = *new std::unordered_map<const void*, Receives>;
  bool taken;
  {
    std::lock_guard lock(mutex);
    if (places.size() > remembered) {
      std::erase_if(places, [](const auto& place) { return !place.second.all; });
      remembered = std::max(remembered, 2 * places.size());
    }
    receives_ = &places[address];
    taken = receives_->all++ > 0;
  }
  if (taken) {
    node::Node* node = engine().node();
    may_collide_ = comes_from_outside(bytes, source, comm) || (node && node->rts_sent());
    if (!may_collide_ && node) {
      // The count is incremented before rts_sent() is read again, so either this rank sees now that RTS
      // headers are sent, or their senders see the count and send whole messages.
      node->mine().claimed_receives.fetch_add(1);
      claims_counted_ = true;
      may_collide_ = node->rts_sent();
    }
  }
  if (may_collide_) return;
  std::lock_guard lock(mutex);
  ++receives_->receives_there;
}

ReceiveClaim& ReceiveClaim::operator=(ReceiveClaim&& other) noexcept {
  give_back();
  receives_ = std::exchange(other.receives_, nullptr);
  claims_counted_ = std::exchange(other.claims_counted_, false);
  may_collide_ = std::exchange(other.may_collide_, false);
  return *this;
}

bool ReceiveClaim::is_anothers() const {
  if (!may_collide_) return false;
  std::lock_guard lock(mutex);
  return receives_->receives_there > 0;
}

void ReceiveClaim::give_back() {
  if (!receives_) return;
  {
    std::lock_guard lock(mutex);
    --receives_->all;
    if (!may_collide_) --receives_->receives_there;
  }
  if (claims_counted_) engine().node()->mine().claimed_receives.fetch_sub(1);
  receives_ = nullptr;
  claims_counted_ = may_collide_ = false;
}

bool may_send_rts(int node_rank) {
  node::Node& node = *engine().node();
  if (!node.rts_sent()) node.note_rts_sent();
  return node.block(node_rank).claimed_receives.load() == 0;
}

}  // namespace fairlead::mpi
