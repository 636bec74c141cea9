// SPDX-License-Identifier: Apache-2.0

#include "mpi/narrow.h"

namespace fairlead::mpi {
namespace {

// Detaching waits for all buffered messages.
int flush_buffer() {
  void* buffer = nullptr;
  int bytes = 0;
  int result = real.Buffer_detach(&buffer, &bytes);
  return result == MPI_SUCCESS ? real.Buffer_attach(buffer, bytes) : result;
}

}  // namespace

void* made_of_older(Function function) {
  return function == Function::Buffer_flush ? reinterpret_cast<void*>(&flush_buffer) : nullptr;
}

}  // namespace fairlead::mpi
