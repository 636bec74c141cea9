// SPDX-License-Identifier: Apache-2.0
//
// A program that calls MPI_Finalize after main(): in the destructor of a static object, when the GPU's driver
// has ended, or in a function of atexit(), when it has not. The argument says which: static or atexit.

#include <fairlead/device.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

int rank = 0, size = 1;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "late_finalize: %s: %s\n", what, fairlead_device_error_text());
  std::exit(1);
}

void need(int error, const char* what) {
  if (error != 0) give_up(what);
}

// A message of device memory around the ring, and a sum.
void communicate() {
  constexpr int count = 1 << 20;
  void *out = nullptr, *in = nullptr;
  std::vector<int> numbers(count, rank + 1);
  need(fairlead_device_malloc(&out, count * sizeof(int)), "allocate");
  need(fairlead_device_malloc(&in, count * sizeof(int)), "allocate");
  need(fairlead_device_copy(out, numbers.data(), count * sizeof(int)), "copy");
  MPI_Sendrecv(out, count, MPI_INT, (rank + 1) % size, 0, in, count, MPI_INT, (rank + size - 1) % size, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Allreduce(MPI_IN_PLACE, in, 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  need(fairlead_device_copy(numbers.data(), in, count * sizeof(int)), "copy");
  if (numbers[999] != size * (size + 1) / 2 || numbers[1000] != (rank + size - 1) % size + 1)
    give_up("wrong bytes");
}

// Fails the program if anything is wrong.
void finalize() {
  MPI_Barrier(MPI_COMM_WORLD);
  if (MPI_Finalize() != MPI_SUCCESS) _exit(1);
  if (rank == 0) std::printf("finalized after main()\n");
  std::fflush(stdout);
}

struct Last {
  bool finalizes = false;
  ~Last() {
    if (finalizes) finalize();
  }
} last;

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  alarm(300);
  communicate();
  last.finalizes = argc > 1 && std::strcmp(argv[1], "static") == 0;
  if (!last.finalizes) std::atexit(finalize);
  return 0;
}
