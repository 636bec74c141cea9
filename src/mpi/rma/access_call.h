// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a one-sided access, for all ten functions and in either count form.

#pragma once

#include <climits>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// In place of the rank of a target. MPI_PROC_NULL is negative, too, and differs from both.
constexpr int all_targets = INT_MIN, no_target = INT_MIN + 1;

// In the order of rma::Request.
enum class AccessKind { put, get, accumulate, fetch, compare_and_swap };

struct AccessCall {
  AccessKind kind;
  MPI_Win win;
  // The buffers that the origin reads and those that it writes.
  const void* origin_addr = nullptr;
  MPI_Count origin_count = 0;
  MPI_Datatype origin_datatype = MPI_DATATYPE_NULL;
  const void* compare_addr = nullptr;
  void* result_addr = nullptr;
  MPI_Count result_count = 0;
  MPI_Datatype result_datatype = MPI_DATATYPE_NULL;
  int target_rank = MPI_PROC_NULL;
  MPI_Aint target_disp = 0;
  MPI_Count target_count = 0;
  MPI_Datatype target_datatype = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  bool of_one_element = false;  // predefined type: MPI_Fetch_and_op, MPI_Compare_and_swap
  MPI_Request* request = nullptr;

  bool reads() const { return kind != AccessKind::get && op != MPI_NO_OP; }
  bool writes() const {
    return kind == AccessKind::get || kind == AccessKind::fetch || kind == AccessKind::compare_and_swap;
  }
};

}  // namespace fairlead::mpi
