// SPDX-License-Identifier: Apache-2.0
//
// At level info, names the paths of collectives on device memory: a line for the first call of a collective
// that takes a path in communicators of a size, from the communicator's rank 0.

#pragma once

#include "base/log.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

inline bool logs_algorithms(const CommPosition& position) {
  return position.rank == 0 && log_enabled(LogLevel::info);
}

// Call it if logs_algorithms(). `why` says in words what decided on the path. The bytes are those of this
// rank's larger buffer.
void log_algorithm(const CollectiveCall& call, const CommPosition& position, const Regions& regions,
                   const char* path, const char* why);

}  // namespace fairlead::mpi
