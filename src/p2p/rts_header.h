// SPDX-License-Identifier: Apache-2.0
//
// What the host message of a larger device send carries in place of the bytes: a record of fixed length that
// names the sender's offer in the node's shared segment or, between nodes, the stream in which the bytes
// follow (src/mpi/network/pipelined_send.h). A receive knows one by its exact length and the
// job's nonce, which no user message starts with. The length is a multiple of the size of every common basic
// type: a receive of such a type may not see a message that ends inside an element (MPICH 5 asserts it).
// A genuine message of that length only costs a probe more (see src/mpi/p2p/probed_messages.h).

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
  int32_t sender;   // node rank; of a stream, rank in MPI_COMM_WORLD
  uint32_t number;  // of an offer, index in the sender's block; of a stream, the tag of its chunks
  RtsKind kind;
  uint64_t bytes;        // of the user's message
  uint64_t chunk_bytes;  // of a stream: all chunks but the last have this length
  uint64_t flow_event = 0;    // of the trace (src/observe/trace.h); 0: none

  uint64_t chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
  size_t chunk_length(uint64_t chunk) const { return std::min(chunk_bytes, bytes - chunk * chunk_bytes); }
};
constexpr uint32_t rts_version = 1;
constexpr size_t rts_bytes = 96;
static_assert(sizeof(RtsHeader) <= rts_bytes && std::is_trivially_copyable_v<RtsHeader>);

// As it travels: the record, then zeros.
struct RtsMessage {
  unsigned char bytes[rts_bytes] = {};
  RtsMessage() = default;
  explicit RtsMessage(const RtsHeader& rts) {
    std::memcpy(bytes, &rts, sizeof rts);
  }
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
