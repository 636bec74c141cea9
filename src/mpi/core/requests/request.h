// SPDX-License-Identifier: Apache-2.0
//
// Connects an operation with the request that the user holds.

#pragma once

#include <memory>

#include "mpi/core/operation.h"

namespace fairlead::mpi {

// Starts the operation and waits for it; fills `status` unless it is MPI_STATUS_IGNORE.
int run(Operation& operation, MPI_Status* status);

// Starts the operation and gives the user a request for it.
int hand_out(std::unique_ptr<Operation> operation, MPI_Request* request);

// Starts the operation for Fairlead itself: there is no request, and it makes no progress before the caller
// adds it to the engine. Call end_detached() when it is complete.
int start_detached(std::unique_ptr<Operation> operation, Operation** started);
int end_detached(Operation* operation, MPI_Status* status);

// Call after starting a nonblocking operation, so that the operation progresses as soon as the peer is there,
// not only when the program completes it. `in_device`: the operation moves device memory. `worth_a_round`:
// what the operation said when it had started.
void help(Operation& operation, bool in_device, bool worth_a_round);

// Creates a real host request that is never started, as the handle of a persistent operation.
int make_token(MPI_Request* token);
// Gives the user `handle`, a real host request, for a persistent operation, which is not started yet.
void hand_out_persistent(std::unique_ptr<Operation> operation, MPI_Request handle, MPI_Request* request);

// The user completes `request`, whose operation is complete: frees both, or makes them inactive if
// persistent.
int finish(Operation* operation, MPI_Request* request, MPI_Status* status);

// MPI_Request_free: the operation continues without the user.
void release(Operation* operation, MPI_Request* request);

}  // namespace fairlead::mpi
