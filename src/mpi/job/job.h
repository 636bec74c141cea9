// SPDX-License-Identifier: Apache-2.0
//
// What the job of MPI_Init and the sessions of a rank (sessions.h) share.

#pragma once

#include "mpi/abi/host_mpi.h"
#include "node/segment.h"

namespace fairlead::mpi {

// Ends the program if the MPI that it has loaded has another ABI.
void require_own_abi();

// Returns a nonce that no other job has, nor any other rank that serves its sessions alone.
node::Nonce new_nonce();

// Call when no more messages can arrive. Frees the device resources and communicators that Fairlead holds,
// and reports what is left (FAIRLEAD_CHECK=leaks). `node` is a communicator of the ranks whose memory this
// rank may have mapped, or MPI_COMM_NULL if there are none.
void release_all(MPI_Comm node);

}  // namespace fairlead::mpi
