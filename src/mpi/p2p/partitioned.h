// SPDX-License-Identifier: Apache-2.0
//
// What mpi/stream needs to know about partitioned requests.

#pragma once

#include "device/runtime.h"
#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Called before the start of a request is enqueued on the stream: kernels behind that start must not see what
// arrived in the round before. Does nothing if no kernel can see arrivals of this request.
device::Error clear_arrivals(MPI_Request request, device::Stream stream);

}  // namespace fairlead::mpi
