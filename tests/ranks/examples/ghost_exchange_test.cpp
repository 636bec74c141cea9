// SPDX-License-Identifier: Apache-2.0
//
// Whatever the process grid, the halo, the corners and the variant of the exchange: the field equals that of
// one rank to the last bit, and so do the ghost cells, which have the value of the cell that they stand for.
// One launch of up to four ranks runs the cases of all variants that need no threads, or, where a variant is
// named, its own.

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "choose_gpu.h"
#include "ghost_exchange/grid.h"
#include "ghost_exchange/solver.h"
#include "ghost_exchange/variants.h"

namespace {

using ghost::Options;

int rank;

bool same(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// Ghost cells outside the field stand for the nearest cell inside.
bool array_is_right(const std::vector<double>& array, const std::vector<double>& field,
                    const Options& options, const std::string& words) {
  ghost::Grid grid = ghost::make_grid(MPI_COMM_WORLD, options);
  size_t wrong = 0;
  for (int j = -grid.halo; j < grid.jsize + grid.halo; ++j)
    for (int i = -grid.halo; i < grid.isize + grid.halo; ++i) {
      bool corner = (j < 0 || j >= grid.jsize) && (i < 0 || i >= grid.isize);
      if (corner && !options.corners) continue;
      int row = std::clamp(grid.jbegin + j, 0, grid.rows - 1),
          column = std::clamp(grid.ibegin + i, 0, grid.columns - 1);
      double expected = field[static_cast<size_t>(row) * grid.columns + column];
      if (!same(array[grid.at(j, i)], expected) && wrong++ == 0)
        std::fprintf(stderr, "%s: rank %d, cell %d,%d is %.17g, not %.17g\n", words.c_str(), rank, j, i,
                     array[grid.at(j, i)], expected);
    }
  ghost::free_grid(grid);
  return wrong == 0;
}

// Returns the cases that failed.
int check_all(const ghost::Variant& variant, const Options& problem, const std::vector<double>& field) {
  int ranks, failed = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int columns = 1; columns <= ranks; ++columns) {
    if (ranks % columns) continue;
    int rows = ranks / columns;
    for (int halo = 1; halo <= 4; ++halo)
      for (bool corners : {false, true}) {
        Options options = problem;
        options.process_columns = columns;
        options.process_rows = rows;
        options.halo = halo;
        options.corners = corners;
        options.variant = variant.name;
        std::string words = std::string(variant.name) + ", process grid " + std::to_string(columns) + " by " +
                            std::to_string(rows) + ", halo " + std::to_string(halo) +
                            (corners ? ", corners" : "");
        ghost::Result result = ghost::solve(MPI_COMM_WORLD, options, true);
        int good = array_is_right(result.array, field, options, words);
        if (rank == 0 &&
            !std::equal(field.begin(), field.end(), result.field.begin(), result.field.end(), same)) {
          std::fprintf(stderr, "%s: the gathered field is not that of one rank\n", words.c_str());
          good = false;
        }
        MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        failed += !good;
      }
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const ghost::Variant* named = argc > 1 ? ghost::find_variant(argv[1]) : nullptr;
  int ranks, given;
  MPI_Init_thread(&argc, &argv, named ? named->thread_level : MPI_THREAD_SINGLE, &given);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > 4) {  // the field is too small
    if (rank == 0) std::fprintf(stderr, "needs at most 4 ranks, has %d\n", ranks);
    MPI_Finalize();
    return 77;
  }
  choose_gpu(MPI_COMM_WORLD);

  Options problem;
  problem.columns = 23;
  problem.rows = 19;
  problem.iterations = 2;
  problem.process_columns = problem.process_rows = 1;
  std::vector<double> field = ghost::solve(MPI_COMM_SELF, problem, true).field;

  int failed = 0, cases = 0, lacking = 0;
  for (const ghost::Variant& variant : ghost::variants()) {
    if (argc > 1 && std::string(variant.name) != argv[1]) continue;
    if (std::string needed = ghost::lacking(variant); !needed.empty()) {
      if (rank == 0) std::printf("%s needs %s\n", variant.name, needed.c_str());
      ++lacking;
      continue;
    }
    failed += check_all(variant, problem, field);
    ++cases;
  }
  if (rank == 0) std::printf("%d variants, %d cases failed\n", cases, failed);
  MPI_Finalize();
  if (lacking && !cases) return 77;
  return failed || !cases;
}
