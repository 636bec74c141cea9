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

namespace fairlead::mpi::network {

// MPI_Init. Collective over MPI_COMM_WORLD, after network::open() and Engine::open(). Communicates only in
// jobs of several nodes, and tries the host MPI at once if a GPU is in use on every node.
void open_capability();

namespace detail {
extern constinit std::atomic<bool> awaits_device;
void begin_trial(int device);
}  // namespace detail

// A device message starts. The first on each node lets the trial begin where MPI_Init could not: Fairlead
// itself never chooses the device that a rank uses. The caller does not hold the engine's lock.
inline void note_device(int device) {
  if (detail::awaits_device.load(std::memory_order_relaxed)) detail::begin_trial(device);
}

// MPI_Finalize: ends a trial that has not begun or is under way. Call it once, and then make progress until
// capability_is_decided().
void end_capability();
bool capability_is_decided();
void close_capability();

}  // namespace fairlead::mpi::network
