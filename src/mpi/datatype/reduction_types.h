// SPDX-License-Identifier: Apache-2.0
//
// Predefined reduction operations and datatypes of MPI, as kernels know them (src/kernels/reduce.h).

#pragma once

#include "kernels/reduce.h"
#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// False where there is no kernel: user-defined operations, long double, combinations the standard does not
// allow.
bool kernel_for(MPI_Op op, MPI_Datatype datatype, kernels::ReduceOp* kernel_op, kernels::Element* element);

// May this operation, a predefined one, be applied to this predefined type, as far as is known here?
bool is_allowed(MPI_Op op, MPI_Datatype datatype);

// May MPI_Compare_and_swap be applied to this predefined type, as far as is known here? Integers, logicals
// and bytes are what some bitwise or logical operation is allowed on.
bool can_be_swapped(MPI_Datatype datatype);

}  // namespace fairlead::mpi
