// SPDX-License-Identifier: Apache-2.0
//
// The ready-to-send (RTS) header: the content of the host message of a device send, in place of the
// user's bytes. It has a fixed length and names the sender's rendezvous in the node's shared segment or,
// between nodes, the pipelined transfer that carries the bytes (src/mpi/network/pipelined_send.h). A receive
// recognizes it by its exact length and the job's nonce, which no user message starts with. The length is a
// multiple of the size of every common basic type (quirk part_of_element). A user message of that length only
// makes a probe slower (see src/mpi/p2p/probed_messages.h).

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "node/segment.h"

namespace fairlead::p2p {

enum class RtsKind : uint32_t { rendezvous, pipelined };

struct RtsHeader {
  node::Nonce nonce;
  uint32_t version;
  int32_t sender;   // node rank; for a pipelined transfer, rank in MPI_COMM_WORLD
  uint32_t number;  // rendezvous: index in the sender's block; pipelined transfer: tag of its chunks
  RtsKind kind;
  uint64_t bytes;        // of the user's message
  uint64_t chunk_bytes;  // pipelined transfer: length of all chunks but the last
  uint32_t comes_later =
      0;  // pipelined transfer: its bytes are not there before a GPU stream has come to the send
  uint64_t flow_event = 0;  // id of the flow event in the trace (src/observe/trace.h); 0: none
  // Pipelined transfer: of the GPU whose memory the receiver may claim, to map it (src/mpi/network/fabric.h).
  device::FabricDomain domain{};

  uint64_t chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
  size_t chunk_length(uint64_t chunk) const { return std::min(chunk_bytes, bytes - chunk * chunk_bytes); }
};
constexpr uint32_t rts_version = 3;
constexpr size_t rts_bytes = 96;
static_assert(sizeof(RtsHeader) <= rts_bytes && std::is_trivially_copyable_v<RtsHeader>);

// As it is sent: the header, then zeros.
struct RtsMessage {
  unsigned char bytes[rts_bytes] = {};
  RtsMessage() = default;
  explicit RtsMessage(const RtsHeader& rts) { std::memcpy(bytes, &rts, sizeof rts); }
};

inline bool is_rts(const void* bytes, size_t length, const node::Nonce& nonce) {
  return length == rts_bytes && std::memcmp(bytes, &nonce, sizeof nonce) == 0;
}

inline RtsHeader read_rts(const void* bytes) {
  RtsHeader rts;
  std::memcpy(&rts, bytes, sizeof rts);
  return rts;
}

}  // namespace fairlead::p2p
