// SPDX-License-Identifier: Apache-2.0
//
// How a datatype was made. The ordinary functions of MPI refuse to tell of types that large-count functions
// made (MPICH 5.0.2 raises an error), and an older MPI has no others: the large-count ones are asked where
// they are.

#pragma once

#include <cstddef>
#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

int combiner_of(MPI_Datatype datatype);

// The arguments of the function that made a type, in their order, but the types apart.
class TypeContents {
 public:
  explicit TypeContents(MPI_Datatype made);
  ~TypeContents();
  TypeContents(const TypeContents&) = delete;
  TypeContents& operator=(const TypeContents&) = delete;

  int combiner() const { return combiner_; }
  const std::vector<MPI_Datatype>& types() const { return types_; }
  // Counts, lengths, and displacements in elements; then displacements in bytes, of which there are so many.
  // All are one row, whatever functions made the type.
  MPI_Count number(std::size_t index) const {
    return index < integers_.size() ? integers_[index] : wide_[index - integers_.size()];
  }
  // The arguments of MPI_Type_create_subarray and MPI_Type_create_darray that may be large, behind the others
  // where they are.
  bool large() const { return large_; }

 private:
  int combiner_ = MPI_COMBINER_NAMED;
  bool large_ = false;
  std::vector<int> integers_;
  std::vector<MPI_Count> wide_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace fairlead::mpi
