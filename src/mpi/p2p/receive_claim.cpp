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

// Under way into one place.
struct ReceiveClaim::Receives {
  unsigned all = 0;
  unsigned landing_there = 0;
};

namespace {

std::mutex mutex;
// Of places: beyond it, those that are free are forgotten.
size_t remembered = 4096;

// Could it be a descriptor from another node? What is sent there cannot be known here, but only long messages
// are streams.
bool comes_from_outside(MPI_Count bytes, int source, MPI_Comm comm) {
  if (network::native() || bytes <= static_cast<MPI_Count>(network::chunk_bytes())) return false;
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
      // Either this rank sees now that descriptors are sent, or their senders see that they would be in
      // danger.
      node->mine().claimed_receives.fetch_add(1);
      claims_counted_ = true;
      may_collide_ = node->rts_sent();
    }
  }
  if (may_collide_) return;
  std::lock_guard lock(mutex);
  ++receives_->landing_there;
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
  return receives_->landing_there > 0;
}

void ReceiveClaim::give_back() {
  if (!receives_) return;
  {
    std::lock_guard lock(mutex);
    --receives_->all;
    if (!may_collide_) --receives_->landing_there;
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
