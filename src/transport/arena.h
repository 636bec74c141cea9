// SPDX-License-Identifier: Apache-2.0
//
// Where the chunks of a streamed message lie (see staged.h): memory of the sender that its node can reach,
// either pinned host memory, or device memory of a buffer pool. Each rank has one of host memory, and one for
// each of its devices, opened at first use. Belongs to one thread at a time (the engine's lock).

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "device/ipc_registry.h"
#include "node/node.h"

namespace fairlead::transport {

using node::Node;
using node::Rendezvous;

// The sender's side.
class Arena {
 public:
  virtual ~Arena() = default;

  uint64_t chunk_bytes() const { return chunk_bytes_; }
  // An offset with room for `bytes` bytes, at most chunk_bytes(); none when the rest is in use.
  std::optional<uint64_t> take(uint64_t bytes);
  void give_back(uint64_t offset);
  virtual char* at(uint64_t offset) const = 0;
  // Nothing has been taken or come back for a while: its holders may be waiting for whoever asks.
  bool stuck() const;

 protected:
  virtual std::optional<uint64_t> find_room(uint64_t bytes) = 0;
  virtual void put_back(uint64_t offset) = 0;
  uint64_t chunk_bytes_ = 0;

 private:
  std::chrono::steady_clock::time_point last_change_{};
};

// Null where the kernel gives no memory, or options allow none.
Arena* host_arena(Node& node);
// False where a message of the device would need the host arena, which options allow, and the kernel gives no
// memory for it.
bool may_stage(Node& node, int device, uint64_t bytes, node::Medium medium);
// Null where the pool is off, cannot be shared, or has no room for a chunk of `bytes` bytes now.
Arena* device_arena(Node& node, int device, uint64_t bytes);

// The receiver's side.
class ArenaView {
 public:
  // Finds the arena that this offer of `owner` streams through, for copies that run on `device`, which
  // changes where only another one reaches it; false when none does.
  bool open(Node& node, int owner, const Rendezvous& rendezvous, int* device);
  // Are these bytes within the arena?
  bool holds(uint64_t offset, uint64_t bytes) const;
  // Null where there is no address space for it: read() brings the bytes then.
  const char* start() const { return start_; }
  bool read(uint64_t offset, void* to, uint64_t bytes) const;

 private:
  const node::NodeMemory::Range* in_host_ = nullptr;
  const char* start_ = nullptr;
  uint64_t bytes_ = 0;
  device::MappedMemory mapped_;
};

// Host arenas that are pinned here, this rank's own and its peers'; and unpinning them once nobody stages.
size_t pinned_bytes();
void unpin_host_arenas();
// Chunks of this rank's host arena that hold bytes; for leak tests.
size_t staged_chunks_in_use();

}  // namespace fairlead::transport
