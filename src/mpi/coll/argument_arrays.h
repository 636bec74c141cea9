// SPDX-License-Identifier: Apache-2.0
//
// Copies of the arrays of counts, displacements and types of a collective that is not over when its call
// returns. The standard forbids programs to touch them meanwhile (MPI 4.1, 6.12), but host MPIs read them in
// the call, and programs rely on that: mpi4py frees them.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

// After keep() the call names the copies.
class KeptArrays {
 public:
  void keep(CollectiveCall* call, const CommPosition& position);

 private:
  template <class Element>
  const Element* copy(const Element* elements, size_t many);

  std::vector<std::unique_ptr<std::byte[]>> copies_;
};

}  // namespace fairlead::mpi
