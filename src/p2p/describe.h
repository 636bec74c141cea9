// SPDX-License-Identifier: Apache-2.0
//
// Describes this rank's device memory so that another rank of the node can map it. Belongs to one thread at a
// time (the engine's lock).

#pragma once

#include <optional>

#include "base/statistics.h"
#include "node/node.h"

namespace fairlead::p2p {

// Fills `remote` for `bytes` bytes at `address`, and sends `receiver` the file that it may need to map them.
// False: it cannot.
bool describe(node::Node& node, int receiver, const device::Allocation& allocation, const void* address,
              uint64_t bytes, node::RemoteMemory* remote);

// The same if mapping the memory is worth its time. Mapping another process's memory takes about as long as
// moving 20 MiB, and new memory incurs this cost again. Memory that is freed after one or two messages is
// therefore better not mapped at all. The exception is a driver that takes new allocations from a block that
// it keeps: the block stays mapped, and its handle shows that it is the same. Returns why the memory was not
// described.
std::optional<Fallback> describe_if_worth(node::Node& node, int receiver,
                                          const device::Allocation& allocation, const void* address,
                                          uint64_t bytes, node::RemoteMemory* remote);

// The receiver has copied bytes from there itself: it has the memory mapped and can copy from it again
// without this rank's help. has_fetched() is false once the memory has been freed.
void note_fetched_from(int receiver, uint64_t id);
bool has_fetched(int receiver, uint64_t id);

}  // namespace fairlead::p2p
