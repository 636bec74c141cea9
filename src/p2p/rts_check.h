// SPDX-License-Identifier: Apache-2.0
//
// What other processes wrote is looked at before it indexes anything: damaged, it is an MPI error and no
// crash.

#pragma once

#include "kernels/shape_extent.h"
#include "p2p/rts_header.h"

namespace fairlead::p2p {

// What the numbers of a descriptor can be in this job.
struct DescriptorLimits {
  int node_ranks;  // 0: no memory is shared
  int ranks, highest_tag;
  uint64_t largest_chunk;
};

inline bool is_sound(const Descriptor& descriptor, const DescriptorLimits& limits) {
  if (descriptor.version != descriptor_version || descriptor.bytes > INT64_MAX || descriptor.sender < 0)
    return false;
  if (descriptor.kind == DescriptorKind::offer)
    return descriptor.sender < limits.node_ranks && descriptor.number < node::offers_per_rank;
  return descriptor.kind == DescriptorKind::stream && descriptor.sender < limits.ranks &&
         descriptor.number <= static_cast<uint32_t>(limits.highest_tag) && descriptor.chunk_bytes > 0 &&
         descriptor.chunk_bytes <= limits.largest_chunk;
}

// Of a message of `bytes` bytes.
inline bool is_sound(const node::Offer& offer, uint64_t bytes) {
  return offer.bytes == bytes && offer.device >= 0 && offer.device < node::devices_per_rank;
}

// Do the bytes lie in the memory that is to be mapped? A message to this very process names no allocation.
inline bool is_sound(const node::RemoteMemory& source, const kernels::Shape& shape, int64_t first,
                     uint64_t bytes) {
  const auto extent = kernels::extent_of(shape);
  int64_t begin;
  return extent && extent->bytes == bytes && source.size <= INT64_MAX && source.offset <= source.size &&
         !__builtin_add_overflow(static_cast<int64_t>(source.offset), first, &begin) &&
         kernels::stays_within(*extent, begin, 0, static_cast<int64_t>(source.size));
}

}  // namespace fairlead::p2p
