// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/receive_claim.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "mpi/abi/mutex.h"
#include "mpi/core/engine.h"
#include "mpi/core/forwarded_receives.h"
#include "mpi/network/network.h"

namespace fairlead::mpi {

// The receives in flight into one address: all of them, those that use the user's buffer, and the length of
// the longest since there were none.
struct ReceiveClaim::Receives {
  unsigned all = 0;
  unsigned receives_there = 0;
  MPI_Count longest = 0;
};

namespace {

// The number of addresses above which those without receives are forgotten.
size_t remembered = 4096;

// One thread needs no mutex.
std::unique_lock<Mutex> lock_claims() {
  static auto& mutex = *new Mutex;
  return engine().threads() ? std::unique_lock(mutex) : std::unique_lock<Mutex>();
}

// Could one of several receives into a buffer, the longest of this length, get an RTS header? The receiver
// does not know what ranks of other nodes send, but only messages longer than their chunks are pipelined.
bool rts_may_come_to(MPI_Count longest) {
  return rts_comes_inside() ||
         (rts_comes_from_outside() && longest > static_cast<MPI_Count>(network::smallest_chunk()));
}

}  // namespace

ReceiveClaim::ReceiveClaim(const void* address, MPI_Count bytes, Receive receive) {
  static auto& places = *new std::unordered_map<const void*, Receives>;
  bool taken;
  MPI_Count longest;
  {
    auto lock = lock_claims();
    if (places.size() > remembered) {
      std::erase_if(places, [](const auto& place) { return !place.second.all; });
      remembered = std::max(remembered, 2 * places.size());
    }
    receives_ = &places[address];
    taken = receives_->all++ > 0;
    longest = receives_->longest = taken ? std::max(receives_->longest, bytes) : bytes;
  }
  if (taken) {
    may_collide_ = receive == Receive::to_be_posted && rts_may_come_to(longest);
    if (!may_collide_) {
      block_rts();
      blocks_rts_ = true;
      may_collide_ = receive == Receive::to_be_posted && rts_may_come_to(longest);
    }
  }
  if (may_collide_) return;
  auto lock = lock_claims();
  ++receives_->receives_there;
}

ReceiveClaim& ReceiveClaim::operator=(ReceiveClaim&& other) noexcept {
  give_back();
  receives_ = std::exchange(other.receives_, nullptr);
  blocks_rts_ = std::exchange(other.blocks_rts_, false);
  may_collide_ = std::exchange(other.may_collide_, false);
  return *this;
}

bool ReceiveClaim::is_anothers() const {
  if (!may_collide_) return false;
  auto lock = lock_claims();
  return receives_->receives_there > 0;
}

void ReceiveClaim::give_back() {
  if (!receives_) return;
  {
    auto lock = lock_claims();
    --receives_->all;
    if (!may_collide_) --receives_->receives_there;
  }
  if (blocks_rts_) unblock_rts();
  receives_ = nullptr;
  blocks_rts_ = may_collide_ = false;
}

bool may_send_rts(int node_rank) {
  node::Node& node = *engine().node();
  if (!node.rts_sent()) node.note_rts_sent();
  // The receiver may be this rank.
  watch_forwarded();
  return node.block(node_rank).rts_held_off.load() == 0;
}

}  // namespace fairlead::mpi
