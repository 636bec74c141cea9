// SPDX-License-Identifier: Apache-2.0
//
// The buffers of MPI_Bsend when the program attaches device memory. The host MPI copies messages into an
// attached buffer, so it gets host memory of the same size instead. The detach functions return the program's
// own address.

#pragma once

#include <compare>
#include <cstdint>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// What a buffer is attached to: this process, a communicator or a session, each of which has one at a time.
struct SendBufferOwner {
  template <class Handle>
  static SendBufferOwner comm(Handle handle) {
    return {1, (uintptr_t)handle};
  }
  template <class Handle>
  static SendBufferOwner session(Handle handle) {
    return {2, (uintptr_t)handle};
  }
  auto operator<=>(const SendBufferOwner&) const = default;

  int kind = 0;
  uintptr_t handle = 0;  // an int in MPICH, a pointer in Open MPI
};

// Call after a successful detach. `place` is where the host MPI stored the address of the buffer; null if the
// binding does not pass it on, as mpif.h.
void give_back_send_buffer(SendBufferOwner owner, void* place);

}  // namespace fairlead::mpi
