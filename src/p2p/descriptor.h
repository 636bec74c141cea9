// SPDX-License-Identifier: Apache-2.0
//
// What the host message of a larger device send carries in place of the bytes: a fixed-size record that
// names the sender's offer in the node's shared segment. A receive knows one by its exact length and the
// job's nonce, which no user message starts with.

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "node/segment.h"

namespace fairlead::p2p {

struct Descriptor {
  node::Nonce nonce;
  uint32_t version;
  int32_t sender;  // node rank
  uint32_t offer;  // index in the sender's block
  uint32_t reserved;
  uint64_t bytes;  // of the user's message
  uint64_t padding[3];
};
constexpr uint32_t descriptor_version = 1;
constexpr size_t descriptor_bytes = sizeof(Descriptor);
static_assert(descriptor_bytes == 64 && std::is_trivially_copyable_v<Descriptor>);

inline bool is_descriptor(const void* bytes, size_t length, const node::Nonce& nonce) {
  return length == descriptor_bytes && std::memcmp(bytes, &nonce, sizeof nonce) == 0;
}

}  // namespace fairlead::p2p
