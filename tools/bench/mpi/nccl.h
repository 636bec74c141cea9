// SPDX-License-Identifier: Apache-2.0
//
// NCCL, or AMD's RCCL with the same interface, opened at run time. Works on the device's default stream and
// waits for the device, so no stream of either vendor is needed here.

#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>

namespace fairlead::tools {

// The few declarations of NCCL 2 used here; data types and operations by their numbers in nccl.h.
struct NcclId {
  char bytes[128];
};
using NcclComm = struct OpaqueNcclComm*;
using NcclStream = void*;
using NcclType = int;
using NcclOperation = int;
inline constexpr NcclType nccl_int8 = 0, nccl_int32 = 2, nccl_float32 = 7, nccl_float64 = 8;
inline constexpr NcclOperation nccl_sum = 0, nccl_prod = 1, nccl_max = 2, nccl_min = 3;

struct Nccl {
  int (*GetVersion)(int*);
  const char* (*GetErrorString)(int);
  int (*GetUniqueId)(NcclId*);
  int (*CommInitRank)(NcclComm*, int, NcclId, int);
  int (*CommDestroy)(NcclComm);
  int (*Send)(const void*, size_t, NcclType, int, NcclComm, NcclStream);
  int (*Recv)(void*, size_t, NcclType, int, NcclComm, NcclStream);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*AllReduce)(const void*, void*, size_t, NcclType, NcclOperation, NcclComm, NcclStream);
  int (*Reduce)(const void*, void*, size_t, NcclType, NcclOperation, int, NcclComm, NcclStream);
  int (*ReduceScatter)(const void*, void*, size_t, NcclType, NcclOperation, NcclComm, NcclStream);
  int (*AllGather)(const void*, void*, size_t, NcclType, NcclComm, NcclStream);
  int (*Broadcast)(const void*, void*, size_t, NcclType, int, NcclComm, NcclStream);
};

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

  Nccl nccl{};
  NcclComm comm = nullptr;
};

}  // namespace fairlead::tools
