// SPDX-License-Identifier: Apache-2.0
//
// NCCL, or AMD's RCCL, opened at run time if FAIRLEAD_COLL or a tuning file names it. It is optional: without
// it, collectives take other algorithms.

#pragma once

#include <string>

#include "coll/nccl_abi.h"
#include "device/cuda_hip/abi.h"

namespace fairlead::coll {

struct NcclLibrary {
  using Result = int;
  using Communicator = struct OpaqueNcclCommunicator*;
  using Stream = void*;  // cudaStream_t, hipStream_t
  using Window = struct OpaqueNcclWindow*;

#define FAIRLEAD_NCCL_FUNCTION(member, symbol, ...) device::DriverFunction<__VA_ARGS__> member{#symbol};
#define FAIRLEAD_NCCL_OPTIONAL FAIRLEAD_NCCL_FUNCTION
#include "coll/nccl_functions.def"
#undef FAIRLEAD_NCCL_OPTIONAL
#undef FAIRLEAD_NCCL_FUNCTION

  int number = 0;    // 22803
  std::string name;  // "NCCL 2.28.3"
  std::string describe(Result result) const;
};

// Opens a library; null, with the reason, if it cannot be used. The library stays open, because it has
// threads of its own.
const NcclLibrary* load_nccl(const std::string& file, std::string* why_not);

// The library that FAIRLEAD_NCCL names, opened once; null, with the reason and the remedy, if it cannot be
// used.
const NcclLibrary* open_nccl(std::string* why_not);

// What the libraries of all ranks can do.
struct NcclAbilities {
  int number = 0;            // of the oldest release
  bool shared_gpus = false;  // ranks may share a GPU
};
NcclAbilities abilities_of(const NcclLibrary& library);

// The library that all ranks of the job use, set in MPI_Init; null: they use none.
const NcclLibrary* nccl();
void use_nccl(const NcclLibrary* library, NcclAbilities of_all);

// May ranks share a GPU? From 2.30 on, NCCL allows it if NCCL_MULTI_RANK_GPU_ENABLE is 1.
bool nccl_shares_gpus();

// May several threads call NCCL for one communicator, one at a time? Before 2.28 the job of a call is in
// thread-local memory of the caller, and later calls for the communicator access it, whatever thread makes
// them and whether or not the first one has ended.
bool nccl_serves_threads();

}  // namespace fairlead::coll
