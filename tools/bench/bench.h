// SPDX-License-Identifier: Apache-2.0
//
// `fairlead bench`: checks the request, then runs the benchmark here, in the ranks of the job this process is
// part of, or in ranks it launches.

#pragma once

#include "bench/options/arguments.h"
#include "run/run.h"

namespace fairlead::tools {

int bench_command(const Words& words);
std::string bench_manual();  // fairlead-bench(1)

// `fairlead run ... fairlead bench NAME ...`: the benchmark program to start in its place. Fills in the MPI
// and the provider that the benchmark's own words ask for.
Words bench_for_ranks(const Words& program, RunArguments& run);

#define FAIRLEAD_ALONE(id, name, ranks, run, ...) int run(const BenchArguments& arguments);
#include "bench/options/benchmarks.def"

// `fairlead matrix`, a benchmark that is a command of its own.
int matrix_command(const Words& words);

}  // namespace fairlead::tools
