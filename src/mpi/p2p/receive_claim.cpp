// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/receive_claim.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "mpi/core/communicator.h"
#include "mpi/core/engine.h"
#include "mpi/p2p/network.h"

namespace fairlead::mpi {

// Under way into one place.
struct LandingPlace::Receives {
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

LandingPlace::LandingPlace(const void* address, MPI_Count bytes, int source, MPI_Comm comm) {
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
    may_meet_ = comes_from_outside(bytes, source, comm) || (node && node->descriptors_sent());
    if (!may_meet_ && node) {
      // Either this rank sees now that descriptors are sent, or their senders see that they would be in
      // danger.
      node->mine().crowded_receives.fetch_add(1);
      crowds_ = true;
      may_meet_ = node->descriptors_sent();
    }
  }
  if (may_meet_) return;
  std::lock_guard lock(mutex);
  ++receives_->landing_there;
}

LandingPlace& LandingPlace::operator=(LandingPlace&& other) noexcept {
  give_back();
  receives_ = std::exchange(other.receives_, nullptr);
  crowds_ = std::exchange(other.crowds_, false);
  may_meet_ = std::exchange(other.may_meet_, false);
  return *this;
}

bool LandingPlace::is_anothers() const {
  if (!may_meet_) return false;
  std::lock_guard lock(mutex);
  return receives_->landing_there > 0;
}

void LandingPlace::give_back() {
  if (!receives_) return;
  {
    std::lock_guard lock(mutex);
    --receives_->all;
    if (!may_meet_) --receives_->landing_there;
  }
  if (crowds_) engine().node()->mine().crowded_receives.fetch_sub(1);
  receives_ = nullptr;
  crowds_ = may_meet_ = false;
}

bool may_send_descriptor(int node_rank) {
  node::Node& node = *engine().node();
  if (!node.descriptors_sent()) node.note_descriptors_sent();
  return node.block(node_rank).crowded_receives.load() == 0;
}

}  // namespace fairlead::mpi
