// SPDX-License-Identifier: Apache-2.0
//
// The operation of an accumulate: as src/rma executes it, and as requests to active-message targets name it.

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include "rma/accumulate.h"

namespace fairlead::mpi {

// The predefined type of which all of this datatype consists.
MPI_Datatype element_of(MPI_Datatype datatype);
// Describes an operation on elements of this type as src/rma needs it. False if MPI does not allow the
// operation.
bool combination_of(MPI_Op op, MPI_Datatype element, rma::Combination* combination);

// The number that identifies a predefined handle on all ranks.
#if defined(MPI_ABI_VERSION)
inline int number_of_type(MPI_Datatype type) {
  return static_cast<int>(reinterpret_cast<intptr_t>(type));
}
inline int number_of_op(MPI_Op op) {
  return static_cast<int>(reinterpret_cast<intptr_t>(op));
}
inline MPI_Datatype type_of_number(int number) {
  return reinterpret_cast<MPI_Datatype>(static_cast<intptr_t>(number));
}
inline MPI_Op op_of_number(int number) {
  return reinterpret_cast<MPI_Op>(static_cast<intptr_t>(number));
}
#else
inline int number_of_type(MPI_Datatype type) {
  return PMPI_Type_c2f(type);
}
inline int number_of_op(MPI_Op op) {
  return PMPI_Op_c2f(op);
}
inline MPI_Datatype type_of_number(int number) {
  return PMPI_Type_f2c(number);
}
inline MPI_Op op_of_number(int number) {
  return PMPI_Op_f2c(number);
}
#endif

}  // namespace fairlead::mpi
