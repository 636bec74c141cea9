// SPDX-License-Identifier: Apache-2.0
//
// From an operation to the request the user holds, and back.

#pragma once

#include <memory>

#include "mpi/core/operation.h"

namespace fairlead::mpi {

// Starts the operation and waits for it; fills `status` unless it is MPI_STATUS_IGNORE.
int run(Operation& operation, MPI_Status* status);

// Starts the operation and gives the user a request for it.
int hand_out(std::unique_ptr<Operation> operation, MPI_Request* request);

// A real, never started handle, for a persistent operation.
int make_token(MPI_Request* token);
// A persistent operation, not started: `handle` is the real request the user gets for it.
void hand_out_persistent(std::unique_ptr<Operation> operation, MPI_Request handle, MPI_Request* request);

// The user completes `request`, whose operation is complete: frees both, or makes them inactive.
int finish(Operation* operation, MPI_Request* request, MPI_Status* status);

// MPI_Request_free: the operation goes on without the user.
void release(Operation* operation, MPI_Request* request);

// Waits for a host request, making progress meanwhile (M7).
int poll_until_complete(MPI_Request* request, MPI_Status* status);

}  // namespace fairlead::mpi
