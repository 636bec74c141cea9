/* SPDX-License-Identifier: Apache-2.0
 *
 * Every rank passes a megabyte of device memory to the next one.
 */
#include <fairlead/device.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { bytes = 1 << 20 };

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int previous = (rank + size - 1) % size;

  char *expected = malloc(bytes), *received = malloc(bytes);
  memset(expected, previous + 1, bytes);
  void *out, *in;
  fairlead_device_set(rank % fairlead_device_count());
  fairlead_device_malloc(&out, bytes);
  fairlead_device_malloc(&in, bytes);
  fairlead_device_fill(out, rank + 1, bytes);
  MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 1) % size, 0, in, bytes, MPI_BYTE, previous, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  fairlead_device_copy(received, in, bytes);

  int right = memcmp(expected, received, bytes) == 0, all_right;
  MPI_Reduce(&right, &all_right, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("ring of %d: %s\n", size, all_right ? "correct" : "WRONG");
  fairlead_device_free(out);
  fairlead_device_free(in);
  free(expected);
  free(received);
  MPI_Finalize();
  return 0;
}
