// SPDX-License-Identifier: Apache-2.0
//
// Copies of the arrays of counts, displacements and types of a collective that is not over when its call
// returns. The standard forbids programs to change or free them meanwhile (MPI 4.1, 6.12). But host MPIs read
// them only during the call, and programs rely on that: mpi4py frees them.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

// keep() copies the arrays and makes the call point to the copies.
class KeptArrays {
 public:
  void keep(CollectiveCall* call, const CommPosition& position);

 private:
  template <class Element>
  const Element* copy(const Element* elements, size_t many);

  std::vector<std::unique_ptr<std::byte[]>> copies_;
};

}  // namespace fairlead::mpi
