// SPDX-License-Identifier: Apache-2.0
//
// Describes this rank's device memory so that another rank of the node can map it. Belongs to one thread at a
// time (the engine's lock).

#pragma once

#include <optional>

#include "node/node.h"
#include "observe/statistics.h"

namespace fairlead::p2p {

// As transport::export_to() for one receiver, if mapping the memory is worth its time. Mapping another
// process's memory takes about as long as moving 20 MiB, and new memory incurs this cost again. Memory that
// is freed after one or two messages is therefore better not mapped at all. The exception is a driver that
// takes new allocations from a block that it keeps: the block stays mapped, and its handle shows that it is
// the same. Returns why the memory was not described.
std::optional<Fallback> describe_if_worth(node::Node& node, int receiver,
                                          const device::Allocation& allocation, const void* address,
                                          uint64_t bytes, node::RemoteMemory* remote);

}  // namespace fairlead::p2p
