// SPDX-License-Identifier: Apache-2.0
//
// Checks on what other processes wrote, before anything is indexed by it: damaged data causes an MPI error,
// not a crash.

#pragma once

#include "kernels/shape_extent.h"
#include "p2p/rts_header.h"

namespace fairlead::p2p {

// The values that the fields of an RTS header can have in this job.
struct RtsLimits {
  int node_ranks;  // 0: no memory is shared
  int ranks, highest_tag;
  uint64_t largest_chunk;
};

inline bool is_sound(const RtsHeader& rts, const RtsLimits& limits) {
  if (rts.version != rts_version || rts.bytes > INT64_MAX || rts.sender < 0) return false;
  if (rts.kind == RtsKind::rendezvous)
    return rts.sender < limits.node_ranks && rts.number < node::rendezvous_per_rank;
  return rts.kind == RtsKind::pipelined && rts.sender < limits.ranks &&
         rts.number <= static_cast<uint32_t>(limits.highest_tag) && rts.chunk_bytes > 0 &&
         rts.chunk_bytes <= limits.largest_chunk;
}

// For a message of `bytes` bytes, and its device as it was read.
inline bool is_sound(const node::Rendezvous& rendezvous, uint64_t bytes, int device) {
  return rendezvous.bytes == bytes && device >= 0 && device < node::devices_per_rank;
}

// Are the bytes within the memory that is to be mapped?
inline bool is_sound(const node::RemoteMemory& source, const kernels::StridedShape& shape, int64_t first,
                     uint64_t bytes) {
  const auto extent = kernels::extent_of(shape);
  int64_t begin;
  return extent && extent->bytes == bytes && source.size <= INT64_MAX && source.offset <= source.size &&
         !__builtin_add_overflow(static_cast<int64_t>(source.offset), first, &begin) &&
         kernels::stays_within(*extent, begin, 0, static_cast<int64_t>(source.size));
}

}  // namespace fairlead::p2p
