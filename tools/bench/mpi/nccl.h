// SPDX-License-Identifier: Apache-2.0
//
// NCCL, or AMD's RCCL with the same interface, opened at run time. Works on the device's default stream and
// waits for the device, so no stream of either vendor is needed here.

#pragma once

#include <mpi.h>

#include <string>

#include "coll/nccl_library.h"

namespace fairlead::tools {

// A communicator of the ranks of `members`, each with the device it has taken.
class NcclRanks {
 public:
  // Collective. Throws a Failure where no NCCL or RCCL library is found, or the GPU is simulated.
  explicit NcclRanks(MPI_Comm members);
  ~NcclRanks();
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  std::string name() const;  // "NCCL 2.28.3"
  // Throws a Failure where the call did not succeed.
  void require(int result, const char* call) const;
  // Returns when what was called is complete.
  void finish() const;

  const coll::NcclLibrary* nccl = nullptr;
  coll::NcclLibrary::Communicator comm = nullptr;
};

}  // namespace fairlead::tools
