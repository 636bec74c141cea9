// SPDX-License-Identifier: Apache-2.0
//
// What the job of MPI_Init and the sessions of a rank (sessions.h) have in common.

#pragma once

#include "mpi/abi/host_mpi.h"
#include "node/segment.h"

namespace fairlead::mpi {

// Ends the program where it has loaded the MPI of another ABI.
void require_own_abi();

// One that no other job, or rank that is alone, has.
node::Nonce new_nonce();

// When no message can come any more: frees what Fairlead holds of devices and communicators, and says what
// is left (FAIRLEAD_CHECK=leaks). `node`: a communicator of those whose memory this rank may have mapped;
// MPI_COMM_NULL for nobody.
void release_all(MPI_Comm node);

}  // namespace fairlead::mpi
