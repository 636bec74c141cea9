// SPDX-License-Identifier: Apache-2.0
//
// The type signature of a buffer, the sequence of its basic datatypes (MPI 4.1, section 5.1), as a number:
// the same on all ranks, and other sequences have another number with a probability of 2^-64. Datatypes of
// one representation are one basic datatype, as MPI_INT and MPI_INTEGER: programs in two languages mix them.

#pragma once

#include <cstdint>
#include <string>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

struct Signature {
  uint64_t length = 0, number = 0;  // basic datatypes; a polynomial of them
};

// Asks the host MPI how a derived datatype was made, at each call.
Signature signature_of(MPI_Count count, MPI_Datatype datatype);

// What the program, or for a predefined one the MPI, calls it; "" if nothing.
std::string name_of_type(MPI_Datatype datatype);

}  // namespace fairlead::mpi
