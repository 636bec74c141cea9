// SPDX-License-Identifier: Apache-2.0
//
// Decides who moves device messages between nodes (FAIRLEAD_NETWORK): Fairlead, which stages them through
// host memory, or the host MPI, which gets the device pointers. With `auto` the host MPI gets them only where
// it says that it handles the memory of these GPUs and then has moved known bytes between all nodes
// (host_trial.h). Until that is decided, and in jobs of one node, device messages between nodes are staged.
//
// Ranks may learn the decision at different times: a sender may already pass device pointers while its
// receiver still expects staged messages, and the other way round. Both kinds of receive take both kinds of
// message.

#pragma once

#include <atomic>

#include "base/options.h"
#include "device/runtime.h"

namespace fairlead::mpi::network {

// MPI_Init. Collective over MPI_COMM_WORLD, after network::open() and Engine::open(). Communicates only in
// jobs of several nodes, and tries the host MPI at once if a GPU is in use on every node.
void open_capability();

// Which device pointers of messages to and from other nodes the host MPI gets: none; none yet, while it is
// tried; those of memory like that of the trial; all, because the user asserts it.
enum class HostPath : uint32_t { staged, tried, proved, asserted };

namespace detail {
extern constinit std::atomic<std::atomic<uint32_t>*> host_path;  // all ranks of a node share the decision
extern constinit std::atomic<bool> awaits_device;
void begin_trial(int device);
}  // namespace detail

inline HostPath host_path() {
  const auto path = static_cast<HostPath>(
      detail::host_path.load(std::memory_order_relaxed)->load(std::memory_order_relaxed));
  return path <= HostPath::asserted ? path : HostPath::staged;  // another process can damage the word
}

// Does the host MPI get the device pointer of a message of this memory without gaps to or from a rank that
// network::reaches()? A receive that was posted so may still get an RTS header: from a sender whose buffer
// has gaps, or that does not know the decision yet. Short messages stay staged: their sends complete without
// their receivers, which no MPI promises, and the host MPI would copy them through host memory as well.
inline bool native(const device::Allocation& memory, uint64_t bytes) {
  const HostPath path = host_path();
  return path >= HostPath::proved && (path == HostPath::asserted || memory.ordinary) &&
         bytes > options().eager_limit;
}

// A device message starts. The first on each node lets the trial begin where MPI_Init could not: Fairlead
// itself never chooses the device that a rank uses. The caller does not hold the engine's lock.
inline void note_device(int device) {
  if (detail::awaits_device.load(std::memory_order_relaxed)) detail::begin_trial(device);
}

// For a thread of Fairlead's own, before each round of progress: makes a device of the program current where
// the host MPI may move device memory in its progress.
void lend_device();

// MPI_Finalize: ends a trial that has not begun or is under way, and touches no device memory for it any
// more. Call it once, and then make progress until capability_is_decided().
void end_capability();
bool capability_is_decided();
void close_capability();

}  // namespace fairlead::mpi::network
