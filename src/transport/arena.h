// SPDX-License-Identifier: Apache-2.0
//
// Memory for the chunks of a pipelined transfer inside a node (staged.h). It belongs to the sender and can be
// mapped by all ranks of its node: either pinned host memory, or device memory of a buffer pool. Each rank
// has one arena in host memory and one for each of its devices, opened at first use. Belongs to one thread at
// a time (the engine's lock).

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
  // An offset with room for `bytes` bytes, at most chunk_bytes(); none if there is no room now.
  std::optional<uint64_t> take(uint64_t bytes);
  void give_back(uint64_t offset);
  virtual char* at(uint64_t offset) const = 0;
  // No chunk has been taken or given back for a while: the holders of chunks may be waiting for the caller.
  bool stuck() const;

 protected:
  virtual std::optional<uint64_t> find_room(uint64_t bytes) = 0;
  virtual void put_back(uint64_t offset) = 0;
  uint64_t chunk_bytes_ = 0;

 private:
  std::chrono::steady_clock::time_point last_change_{};
};

// Null if the kernel provides no memory, or the options allow none.
Arena* host_arena(Node& node);
// False if a message of the device would need the host arena, the options allow it, and the kernel provides
// no memory for it.
bool may_stage(Node& node, int device, uint64_t bytes, node::Medium medium);
// Null if the pool is off, cannot be shared, or has no room for a chunk of `bytes` bytes now.
Arena* device_arena(Node& node, int device, uint64_t bytes);

// The receiver's side.
class ArenaView {
 public:
  // Maps the arena in this medium through which `owner` sends this rendezvous, for copies that run on
  // `device`. Changes `device` if only another one can access the arena; false if none can.
  bool open(Node& node, int owner, const Rendezvous& rendezvous, node::Medium medium, int* device);
  // Are these bytes within the arena?
  bool holds(uint64_t offset, uint64_t bytes) const;
  // Where the chunk at this offset is; null if there is no address space for it: read() copies the bytes
  // then.
  const char* chunk_at(uint64_t offset) const;
  bool read(uint64_t offset, void* to, uint64_t bytes) const;

 private:
  const node::NodeMemory::Range* in_host_ = nullptr;
  const char* start_ = nullptr;
  uint64_t bytes_ = 0, host_chunk_bytes_ = 0;
  device::MappedMemory mapped_;
};

// Chunks of this rank's host arena that are in use; for leak tests.
size_t staged_chunks_in_use();

}  // namespace fairlead::transport
