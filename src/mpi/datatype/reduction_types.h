// SPDX-License-Identifier: Apache-2.0
//
// Maps the predefined reduction operations and datatypes of MPI to those of the kernels
// (src/kernels/reduce.h).

#pragma once

#include <optional>

#include "kernels/reduce.h"
#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// What a predefined datatype or operation is to kernels; none for user-defined ones, long double and others.
std::optional<kernels::Element> kernel_element_of(MPI_Datatype datatype);
std::optional<kernels::ReduceOp> kernel_op_of(MPI_Op op);

// Returns false if there is no kernel: user-defined operations, long double, combinations that the standard
// does not allow.
bool kernel_for(MPI_Op op, MPI_Datatype datatype, kernels::ReduceOp* kernel_op, kernels::Element* element);

// May this predefined operation be applied to this predefined type, according to the tables of this file?
bool is_allowed(MPI_Op op, MPI_Datatype datatype);

// May MPI_Compare_and_swap be applied to this predefined type, according to the same tables? Integers,
// logicals and bytes are the types that allow a bitwise or logical operation.
bool can_be_swapped(MPI_Datatype datatype);

}  // namespace fairlead::mpi
