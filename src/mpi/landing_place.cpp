// SPDX-License-Identifier: Apache-2.0

#include "mpi/landing_place.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "mpi/communicator.h"
#include "mpi/engine.h"
#include "mpi/network.h"

namespace fairlead::mpi {
namespace {

// Receives under way by place. Two places that share a counter cost one of them a copy, no more.
std::array<std::atomic<uint32_t>, 1024> receives_at;

int index_of(const void* address) {
  uint64_t mixed = reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15;  // Fibonacci hashing
  return static_cast<int>(mixed >> 54);
}

// Could it be a descriptor from another node? What is sent there cannot be known here.
bool comes_from_outside(int source, MPI_Comm comm) {
  if (network::native()) return false;
  return source == MPI_ANY_SOURCE ? network::exists() : network::reaches(rank_in_world(comm, source));
}

}  // namespace

LandingPlace::LandingPlace(const void* address, int source, MPI_Comm comm) : index_(index_of(address)) {
  static_assert(receives_at.size() == 1 << (64 - 54));
  if (receives_at[index_].fetch_add(1, std::memory_order_relaxed) == 0) return;
  node::Node* node = engine().node();
  may_meet_ = comes_from_outside(source, comm) || (node && node->descriptors_sent());
  if (may_meet_ || !node) return;
  // Either this rank sees now that descriptors are sent, or their senders see that they would be in danger.
  node->mine().crowded_receives.fetch_add(1);
  crowds_ = true;
  may_meet_ = node->descriptors_sent();
}

LandingPlace& LandingPlace::operator=(LandingPlace&& other) noexcept {
  give_back();
  index_ = std::exchange(other.index_, -1);
  crowds_ = std::exchange(other.crowds_, false);
  may_meet_ = std::exchange(other.may_meet_, false);
  return *this;
}

void LandingPlace::give_back() {
  if (index_ >= 0) receives_at[index_].fetch_sub(1, std::memory_order_relaxed);
  if (crowds_) engine().node()->mine().crowded_receives.fetch_sub(1);
  index_ = -1;
  crowds_ = may_meet_ = false;
}

bool may_send_descriptor(int node_rank) {
  node::Node& node = *engine().node();
  if (!node.descriptors_sent()) node.note_descriptors_sent();
  return node.block(node_rank).crowded_receives.load() == 0;
}

}  // namespace fairlead::mpi
