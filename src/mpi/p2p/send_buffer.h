// SPDX-License-Identifier: Apache-2.0
//
// The buffer of MPI_Bsend when the program attaches device memory. The host MPI copies messages into the
// attached buffer, so it gets host memory of the same size instead. MPI_Buffer_detach returns the program's
// own address.

#pragma once

namespace fairlead::mpi {

// Call after a successful MPI_Buffer_detach. `place` is where the host MPI stored the address of the buffer;
// null if the binding does not pass it on, as mpif.h.
void give_back_send_buffer(void* place);

}  // namespace fairlead::mpi
