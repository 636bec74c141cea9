// SPDX-License-Identifier: Apache-2.0
//
// The ghost exchange of docs/tutorial/ghost-exchange.md: a 2-D field, blurred by a five-point stencil, divided
// among the ranks, with one GPU for each, in explicit memory: the program itself places and copies all data. It is an
// ordinary program of MPI and CUDA or HIP, and does not depend on Fairlead; only the variants "stream" and "graph" need
// its functions, and a header of it that finds them when they are called.

#include <mpi.h>

#include <cstdio>

#include "../choose_gpu.h"
#include "options.h"
#include "output.h"
#include "solver.h"
#include "variants.h"

namespace {

enum Exit { good = 0, failed = 1, bad_usage = 2, cannot_run = 77 };

int run(int argc, char** argv) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ghost::Options options;
  try {
    if (!ghost::read_options(argc, argv, MPI_COMM_WORLD, &options)) return good;
  } catch (const ghost::Refused& refused) {
    if (rank == 0) std::fprintf(stderr, "ghost_exchange: %s\n", refused.line.c_str());
    return bad_usage;
  }
  if (std::string lacking = ghost::lacking(*ghost::find_variant(options.variant)); !lacking.empty()) {
    if (rank == 0)
      std::fprintf(stderr, "ghost_exchange: --variant %s needs %s\n", options.variant.c_str(), lacking.c_str());
    return cannot_run;
  }
  if (!ghost::can_write(MPI_COMM_WORLD, options)) return failed;  // before the long computation
  choose_gpu(MPI_COMM_WORLD);

  bool with_field = !options.field_file.empty();
  ghost::Result result = ghost::solve(MPI_COMM_WORLD, options, with_field);
  int written = rank != 0 || !with_field || ghost::write_field(options, result.field);
  written &= ghost::report(MPI_COMM_WORLD, options, result.times);
  MPI_Bcast(&written, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return written ? good : failed;
}

}  // namespace

int main(int argc, char** argv) {
  int given;  // ghost::lacking() looks at it
  MPI_Init_thread(&argc, &argv, ghost::thread_level(argc, argv), &given);
  int result = run(argc, argv);
  MPI_Finalize();
  return result;
}
