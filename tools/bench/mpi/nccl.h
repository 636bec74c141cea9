// SPDX-License-Identifier: Apache-2.0
//
// NCCL, or AMD's RCCL with the same interface, opened at run time.

#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

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
  // Returns when what was called, on whatever stream of the device, is complete.
  void finish() const;
  // Memory of NCCL's own that every rank has registered, as much as the rank that asks for most; it stays
  // until the end of the communicator. Collective. Throws a Failure where this NCCL cannot; where not all
  // GPUs reach each other, NCCL may register it and not use it as such.
  void* symmetric_memory(uint64_t bytes);

  const coll::NcclLibrary* nccl = nullptr;
  coll::NcclLibrary::Communicator comm = nullptr;

 private:
  struct Symmetric {
    void* address = nullptr;
    coll::NcclLibrary::Window window = nullptr;
  };
  MPI_Comm members_;
  std::vector<Symmetric> symmetric_;
};

}  // namespace fairlead::tools
