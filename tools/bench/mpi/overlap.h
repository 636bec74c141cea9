// SPDX-License-Identifier: Apache-2.0
//
// A nonblocking collective with computation between its start and its wait: what of its time that hides.

#pragma once

#include <cstdint>
#include <functional>

#include "bench/mpi/collective_channel.h"
#include "bench/mpi/collective_report.h"

namespace fairlead::tools {

// The mean of `iterations` calls, over all ranks, in rank 0; each computes for about `compute_s` and calls
// MPI_Test `tests` times meanwhile. Collective.
Overlap measure_overlap(MpiCollective& collective, const std::function<CollectiveCall()>& next_call,
                        int64_t iterations, double compute_s, int tests);

}  // namespace fairlead::tools
