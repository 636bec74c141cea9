// SPDX-License-Identifier: Apache-2.0
//
// The elements and operations of the benchmarks' arguments, as MPI names them.

#pragma once

#include <mpi.h>

#include "bench/collective.h"

namespace fairlead::tools {

inline MPI_Datatype mpi_type(Element element) {
  switch (element) {
    case Element::char_:
      return MPI_INT8_T;  // MPI_CHAR is text, which MPI does not reduce
    case Element::int_:
      return MPI_INT;
    case Element::float_:
      return MPI_FLOAT;
    default:
      return MPI_DOUBLE;
  }
}

inline MPI_Op mpi_operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return MPI_SUM;
    case Reduction::prod:
      return MPI_PROD;
    case Reduction::min:
      return MPI_MIN;
    default:
      return MPI_MAX;
  }
}

}  // namespace fairlead::tools
