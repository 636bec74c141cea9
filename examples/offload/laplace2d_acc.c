// SPDX-License-Identifier: Apache-2.0
//
// Jacobi's iteration for Laplace's equation on a square, by OpenACC and MPI: the grid is on the GPU, each rank has
// some rows of it, and `host_data use_device` passes the device addresses of the rows at its borders. The sum of
// all bits at the end is the same for any number of ranks.
//
//   gcc -O3 -fopenacc -foffload=nvptx-none ... (docs/tutorial/offload.md)
//   fairlead run -n 2 ./laplace2d_acc [CELLS [ITERATIONS]]

#include <inttypes.h>
#include <mpi.h>
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The ranks of a node take its GPUs in turn.
static void choose_gpu(void) {
  MPI_Comm node;
  int local_rank;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local_rank);
  MPI_Comm_free(&node);
  int gpus = acc_get_num_devices(acc_get_device_type());
  if (gpus > 0) acc_set_device_num(local_rank % gpus, acc_get_device_type());
}

// Compilers that cannot reach a GPU run the same loops on the CPU, without a message.
static int runs_on_gpu(void) {
  int yes = 0;
#pragma acc parallel copy(yes)
  yes = acc_on_device(acc_device_not_host);
  return yes;
}

// The number at this place of the command line; -1 if there is something else.
static int argument(int argc, char **argv, int place, int otherwise) {
  if (argc <= place) return otherwise;
  char *end = argv[place];
  const long number = strtol(argv[place], &end, 10);
  return end == argv[place] || *end || number < 0 || number > 1 << 30 ? -1 : (int)number;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  choose_gpu();
  const int cells = argument(argc, argv, 1, 512), iterations = argument(argc, argv, 2, 200);
  if (cells < 1 || iterations < 0 || cells < ranks) {
    if (rank == 0)
      fprintf(stderr, "laplace2d_acc: CELLS is a number from %d (the ranks) on, ITERATIONS one from 0 on\n", ranks);
    MPI_Finalize();
    return 2;
  }

  // Rows 0 and rows + 1 are the neighbours' or the edge of the square, where u is 0 above and 1 below.
  const int first = (int)((long)cells * rank / ranks), rows = (int)((long)cells * (rank + 1) / ranks) - first;
  const int width = cells + 2;
  const size_t size = (size_t)width * (size_t)(rows + 2);
  double *u = malloc(size * sizeof *u), *next = malloc(size * sizeof *next);
  if (!u || !next) MPI_Abort(MPI_COMM_WORLD, 1);
  for (size_t i = 0; i < size; ++i) u[i] = 0;
  for (int row = 0; row <= rows + 1; ++row)
    u[(size_t)row * width] = u[(size_t)row * width + width - 1] = (double)(first + row) / (cells + 1);
  if (rank == ranks - 1)
    for (int column = 0; column < width; ++column) u[(size_t)(rows + 1) * width + column] = 1;

  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
  double change = 0;
#pragma acc data copy(u[0 : size]) create(next[0 : size])
  for (int iteration = 0; iteration < iterations; ++iteration) {
#pragma acc host_data use_device(u)
    {
      MPI_Sendrecv(u + width, width, MPI_DOUBLE, above, 0, u + (size_t)(rows + 1) * width, width, MPI_DOUBLE, below, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Sendrecv(u + (size_t)rows * width, width, MPI_DOUBLE, below, 1, u, width, MPI_DOUBLE, above, 1,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    change = 0;
#pragma acc parallel loop collapse(2) reduction(max : change) present(u[0 : size], next[0 : size])
    for (int row = 1; row <= rows; ++row)
      for (int column = 1; column <= cells; ++column) {
        size_t i = (size_t)row * width + column;
        next[i] = 0.25 * (u[i - 1] + u[i + 1] + u[i - width] + u[i + width]);
        double moved = next[i] > u[i] ? next[i] - u[i] : u[i] - next[i];
        change = moved > change ? moved : change;
      }
#pragma acc parallel loop collapse(2) present(u[0 : size], next[0 : size])
    for (int row = 1; row <= rows; ++row)
      for (int column = 1; column <= cells; ++column) {
        size_t i = (size_t)row * width + column;
        u[i] = next[i];
      }
  }

  uint64_t bits = 0, all_bits = 0;
  double largest = 0;
  for (int row = 1; row <= rows; ++row)
    for (int column = 1; column <= cells; ++column) {
      uint64_t of_cell;
      memcpy(&of_cell, &u[(size_t)row * width + column], sizeof of_cell);
      bits += of_cell;
    }
  MPI_Reduce(&bits, &all_bits, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  int on_gpu = runs_on_gpu(), everywhere = 0;
  MPI_Reduce(&on_gpu, &everywhere, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("laplace2d_acc: %d x %d cells, %d iterations on %s, last change %.3e, bits %016" PRIx64 "\n", cells, cells,
           iterations, everywhere ? "GPUs" : "CPUs", largest, all_bits);
  free(u);
  free(next);
  MPI_Finalize();
  return 0;
}
