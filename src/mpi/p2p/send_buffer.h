// SPDX-License-Identifier: Apache-2.0
//
// The buffer of MPI_Bsend where the program attaches device memory: the host MPI, which copies messages
// there, gets host memory of the same size in its stead, and the program gets its own back when it detaches.

#pragma once

namespace fairlead::mpi {

// Behind a successful MPI_Buffer_detach: `place` is where the address of the buffer was stored; null where
// the binding does not tell it, as in mpif.h.
void give_back_send_buffer(void* place);

}  // namespace fairlead::mpi
