// SPDX-License-Identifier: Apache-2.0
//
// Bytes as an MPI count and its datatype.

#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <climits>
#include <cstdint>

#include "common/failure.h"

namespace fairlead::tools {

// Beyond 2 GiB a count of bytes no longer fits: the same bytes as 64-bit words.
struct Count {
  explicit Count(uint64_t bytes) {
    if (bytes <= INT_MAX) {
      number = static_cast<int>(bytes);
    } else if (bytes % sizeof(int64_t) == 0 && bytes / sizeof(int64_t) <= INT_MAX) {
      type = MPI_INT64_T;
      number = static_cast<int>(bytes / sizeof(int64_t));
    } else {
      throw usage(
          fmt::format("size {} is not accepted; beyond 2 GiB accepted: multiples of 8 up to 16 GiB", bytes));
    }
  }
  MPI_Datatype type = MPI_BYTE;
  int number = 0;
};

}  // namespace fairlead::tools
