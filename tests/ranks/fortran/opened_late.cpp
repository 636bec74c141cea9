// SPDX-License-Identifier: Apache-2.0
//
// Opens Fortran code, and with it the host MPI's Fortran library, outside the order in which symbols are
// searched.

#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION == 5 && OMPI_MINOR_VERSION == 0
  std::puts(
      "skipped: MPI_IN_PLACE of such code is unknown to Open MPI 5.0, without Fairlead as well (5.0.7)");
  return 77;
#endif
  MPI_Init(&argc, &argv);
  void* module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  void* add_up = module ? dlsym(module, "add_up") : nullptr;
  int ranks = 0, sum = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (add_up)
    sum = reinterpret_cast<int (*)()>(add_up)();
  else
    std::printf("FAILED: %s\n", dlerror());
  MPI_Finalize();
  return sum == ranks ? 0 : 1;
}
