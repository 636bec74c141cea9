// SPDX-License-Identifier: Apache-2.0
//
// How a datatype was created. MPI's ordinary query functions fail for types that large-count functions
// created (MPICH 5.0.2 raises an error). Fairlead therefore calls the large-count query functions if the host
// MPI has them; an older MPI has no such types.

#pragma once

#include <cstddef>
#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

int combiner_of(MPI_Datatype datatype);
// Predefined types must not be freed. Those of MPI_Type_create_f90_* have no name, and a combiner of their
// own.
bool is_predefined(MPI_Datatype datatype);

// The arguments of the function that created a type, in their order, with the types separate.
class TypeContents {
 public:
  explicit TypeContents(MPI_Datatype made);
  ~TypeContents();
  TypeContents(const TypeContents&) = delete;
  TypeContents& operator=(const TypeContents&) = delete;

  int combiner() const { return combiner_; }
  const std::vector<MPI_Datatype>& types() const { return types_; }
  // First the counts, lengths, and displacements in elements, then the displacements in bytes. All form one
  // sequence, whichever form of the function created the type.
  MPI_Count number(std::size_t index) const {
    return index < integers_.size() ? integers_[index] : wide_[index - integers_.size()];
  }
  // Does the type have large-count arguments? If so, those of MPI_Type_create_subarray and
  // MPI_Type_create_darray come after the other arguments.
  bool large() const { return large_; }

 private:
  int combiner_ = MPI_COMBINER_NAMED;
  bool large_ = false;
  std::vector<int> integers_;
  std::vector<MPI_Count> wide_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace fairlead::mpi
