// SPDX-License-Identifier: Apache-2.0
//
// The step between the dimensions of a parallel Fourier transform, by OpenMP offload and MPI: every rank has some
// columns of a complex matrix on its GPU and sends a block of them to every other rank by MPI_Alltoall, to which
// `use_device_ptr` gives device addresses. Two transpositions restore the matrix; the GPU checks it.
//
//   gcc -O3 -fopenmp -foffload=nvptx-none ... (docs/tutorial/offload.md)
//   fairlead run -n 2 ./transpose_omp

#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { block = 64 * 64 };  // numbers for each rank

typedef struct {
  double real, imaginary;
} Complex;

static void choose_gpu(void) {
  MPI_Comm node;
  int local_rank;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local_rank);
  MPI_Comm_free(&node);
  if (omp_get_num_devices() > 0) omp_set_default_device(local_rank % omp_get_num_devices());
}

// Programs whose compiler or driver finds no GPU run on the CPU, without a message.
static int runs_on_gpu(void) {
  int host = 1;
#pragma omp target map(from : host)
  host = omp_is_initial_device();
  return !host;
}

// The number of wrong values: the real part `from`, and the imaginary part `to`, each either
// this rank or that of the block.
static long count_wrong(const Complex *matrix, int ranks, int rank, int sent_by_me) {
  const long all = (long)block * ranks;
  long wrong = 0;
#pragma omp target teams distribute parallel for reduction(+ : wrong) map(to : matrix[0 : all]) map(tofrom : wrong)
  for (long i = 0; i < all; ++i) {
    int of_block = (int)(i / block);
    int from = sent_by_me ? rank : of_block, to = sent_by_me ? of_block : rank;
    wrong += matrix[i].real != from || matrix[i].imaginary != to;
  }
  return wrong;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  choose_gpu();
  const long all = (long)block * ranks;
  Complex *mine = malloc((size_t)all * sizeof *mine), *theirs = malloc((size_t)all * sizeof *theirs);
  if (!mine || !theirs) MPI_Abort(MPI_COMM_WORLD, 1);

  long wrong = 0;
#pragma omp target data map(alloc : mine[0 : all], theirs[0 : all])
  {
#pragma omp target teams distribute parallel for
    for (long i = 0; i < all; ++i) {
      mine[i].real = rank;
      mine[i].imaginary = (double)(i / block);
    }
#pragma omp target data use_device_ptr(mine, theirs)
    MPI_Alltoall(mine, block, MPI_C_DOUBLE_COMPLEX, theirs, block, MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
    wrong += count_wrong(theirs, ranks, rank, 0);
#pragma omp target data use_device_ptr(mine, theirs)
    MPI_Alltoall(theirs, block, MPI_C_DOUBLE_COMPLEX, mine, block, MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
    wrong += count_wrong(mine, ranks, rank, 1);
  }

  int on_gpu = runs_on_gpu(), everywhere = 0;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(&on_gpu, &everywhere, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  if (rank == 0 && wrong == 0)
    printf("transpose_omp: there and back on %d %s, all correct\n", ranks, everywhere ? "GPUs" : "CPUs");
  if (rank == 0 && wrong != 0) printf("transpose_omp: %ld numbers are WRONG\n", wrong);
  free(mine);
  free(theirs);
  MPI_Finalize();
  return wrong != 0;
}
