// SPDX-License-Identifier: Apache-2.0
//
// All memory is allocated before the first iteration. Each phase ends when the GPU has finished it, so that its time
// contains no work of other phases.

#include "solver.h"

#include <cstdio>
#include <utility>

#include "../gpu.h"
#include "output.h"
#include "variants.h"

namespace ghost {
namespace {

constexpr double seconds_between_lines = 5;

class Progress {
 public:
  Progress(const Grid& grid, int iterations)
      : silent_(grid.rank != 0), iterations_(iterations), begun_(MPI_Wtime()), told_(begun_) {}

  void tell(int done) {
    double now = MPI_Wtime();
    if (silent_ || now - told_ < seconds_between_lines) return;
    told_ = now;
    std::fprintf(stderr, "ghost_exchange: iteration %d of %d, %.0f s left\n", done, iterations_,
                 (now - begun_) / done * (iterations_ - done));
  }

 private:
  const bool silent_;
  const int iterations_;
  const double begun_;
  double told_;
};

// Runs `work` and waits until the GPU has finished it; appends the seconds.
template <class Work>
void timed(std::vector<double>* seconds, Work work) {
  double begun = MPI_Wtime();
  work();
  gpuCheck(gpuDeviceSynchronize());
  seconds->push_back(MPI_Wtime() - begun);
}

std::vector<double> to_host(const double* x, const Grid& grid) {
  std::vector<double> array(grid.cells());
  gpuCheck(gpuMemcpy(array.data(), x, array.size() * sizeof(double), gpuMemcpyDeviceToHost));
  return array;
}

class Solver {
 public:
  Solver(const Grid& grid, const Options& options, const Variant& variant)
      : grid_(grid),
        options_(options),
        overlaps_(variant.overlaps),
        arrays_{{grid.cells(), variant.memory}, {grid.cells(), variant.memory}},
        exchange_(variant.make(grid)) {
    initialise(x_, grid_);
    initialise(xnew_, grid_);
    fill_ghost_cells();
  }

  double* x() const { return x_; }

  void iterate(Times* times) {
    timed(&times->boundary, [&] { boundary(x_, grid_); });
    if (options_.barriers) MPI_Barrier(grid_.comm);
    if (overlaps_) {
      // The interior needs no ghost cells. It runs while messages are in flight, before the kernels that finish()
      // launches; the time of the exchange includes the part of the interior that is not done when the messages arrive.
      timed(&times->ghost_cell, [&] {
        exchange_->start(x_);
        blur(xnew_, x_, grid_, {1, grid_.jsize - 1, 1, grid_.isize - 1});
        exchange_->finish(x_);
      });
      timed(&times->stencil, [&] { blur_edges(); });
    } else {
      timed(&times->ghost_cell, [&] { exchange(); });
      timed(&times->stencil, [&] { blur(xnew_, x_, grid_, {0, grid_.jsize, 0, grid_.isize}); });
    }
    std::swap(x_, xnew_);
  }

  void fill_ghost_cells() {
    boundary(x_, grid_);
    gpuCheck(gpuDeviceSynchronize());
    exchange();
    gpuCheck(gpuDeviceSynchronize());
  }

 private:
  void exchange() {
    exchange_->start(x_);
    exchange_->finish(x_);
  }

  // The ring of cells around the interior; all cells if there is no interior.
  void blur_edges() {
    int rows = grid_.jsize, columns = grid_.isize;
    blur(xnew_, x_, grid_, {0, 1, 0, columns});
    if (rows > 1) blur(xnew_, x_, grid_, {rows - 1, rows, 0, columns});
    blur(xnew_, x_, grid_, {1, rows - 1, 0, 1});
    if (columns > 1) blur(xnew_, x_, grid_, {1, rows - 1, columns - 1, columns});
  }

  const Grid& grid_;
  const Options& options_;
  const bool overlaps_;
  const Array arrays_[2];
  double *x_ = arrays_[0].data(), *xnew_ = arrays_[1].data();
  const std::unique_ptr<Exchange> exchange_;
};

}  // namespace

Result solve(MPI_Comm comm, const Options& options, bool with_field) {
  Grid grid = make_grid(comm, options);
  Result result;
  {
    Solver solver(grid, options, *find_variant(options.variant));
    if (options.print) print_arrays("before", to_host(solver.x(), grid), grid);

    Progress progress(grid, options.iterations);
    MPI_Barrier(comm);
    double begun = MPI_Wtime();
    for (int n = 0; n < options.iterations; ++n) {
      solver.iterate(&result.times);
      progress.tell(n + 1);
    }
    result.times.total = MPI_Wtime() - begun;

    solver.fill_ghost_cells();
    result.array = to_host(solver.x(), grid);
  }
  if (options.print) print_arrays("after", result.array, grid);
  if (with_field) result.field = gather_field(result.array, grid, options);
  free_grid(grid);
  return result;
}

}  // namespace ghost
