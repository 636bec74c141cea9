// SPDX-License-Identifier: Apache-2.0
//
// How a datatype was made. The ordinary functions of MPI refuse to tell of types that large-count functions made
// (MPICH 5.0.2 raises an error), and an older MPI has no others: the large-count ones are asked where they are.

#pragma once

#include "mpi/host_mpi.h"

namespace fairlead::mpi {

int combiner_of(MPI_Datatype datatype);

// The type that another was made of by MPI_Type_dup, MPI_Type_contiguous or MPI_Type_create_resized.
class OriginalType {
 public:
  explicit OriginalType(MPI_Datatype made);
  ~OriginalType();
  OriginalType(const OriginalType&) = delete;
  OriginalType& operator=(const OriginalType&) = delete;
  operator MPI_Datatype() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace fairlead::mpi
