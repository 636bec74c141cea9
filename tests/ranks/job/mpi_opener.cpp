// SPDX-License-Identifier: Apache-2.0
//
// A program that knows no MPI and opens code that does, for itself alone, as Python does with mpi4py.

#include <dlfcn.h>

#include <cstdio>

int main(int, char** argv) {
  void* module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  void* run = module ? dlsym(module, "run") : nullptr;
  if (!run) {
    std::printf("FAILED: %s\n", dlerror());
    return 1;
  }
  return reinterpret_cast<int (*)()>(run)();
}
