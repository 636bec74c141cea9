// SPDX-License-Identifier: Apache-2.0
//
// What mpi_opener.cpp opens: device memory goes around a ring, and is summed, by an MPI that came after
// Fairlead.

#include <mpi.h>

#include <cstdio>
#include <vector>

#include "fairlead/device.h"

namespace {

constexpr int count = 100'000;

bool is_everywhere(const void* device, double wanted) {
  std::vector<double> values(count);
  if (fairlead_device_copy(values.data(), device, count * sizeof(double)) != FAIRLEAD_DEVICE_SUCCESS)
    return false;
  for (double value : values)
    if (value != wanted) return false;
  return true;
}

bool agree(bool right) {
  int mine = right, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all != 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int run() {
  int provided = 0, rank = 0, size = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  void *mine = nullptr, *got = nullptr;
  fairlead_device_malloc(&mine, count * sizeof(double));
  fairlead_device_malloc(&got, count * sizeof(double));
  const std::vector<double> values(count, rank + 1.0);
  fairlead_device_copy(mine, values.data(), count * sizeof(double));

  MPI_Status status;
  MPI_Sendrecv(mine, count, MPI_DOUBLE, (rank + 1) % size, 1, got, count, MPI_DOUBLE,
               (rank + size - 1) % size, 1, MPI_COMM_WORLD, &status);
  const bool went_round = agree(status.MPI_SOURCE == (rank + size - 1) % size &&
                                is_everywhere(got, (rank + size - 1) % size + 1.0));
  MPI_Allreduce(mine, got, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const bool summed = agree(is_everywhere(got, size * (size + 1) / 2.0));
  if (!went_round || !summed) std::printf("FAILED: ring %d, sum %d\n", went_round, summed);
  fairlead_device_free(mine);
  fairlead_device_free(got);
  MPI_Finalize();
  return went_round && summed ? 0 : 1;
}
