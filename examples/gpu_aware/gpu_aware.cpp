// SPDX-License-Identifier: Apache-2.0
//
// Checks whether this MPI is GPU-aware. It asks the MPI, if the MPI has a query function; but the answer says how the
// MPI was built, not whether messages arrive. So it also sends messages between two ranks, from device memory to device
// memory. An MPI that is not GPU-aware reads the address as host memory, and the segmentation fault is caught here and
// explained.

#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "../choose_gpu.h"

void explain_and_end(int) {
  const char words[] = "gpu_aware: no: this MPI took device memory for host memory\n";
  ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
  _exit(written > 0 ? 1 : 3);
}

// Extensions that some MPIs have; looked up by name, so that the program builds with all of them.
void ask() {
  for (const char* name : {"MPIX_Query_cuda_support", "MPIX_Query_rocm_support", "MPIX_Query_hip_support"}) {
    auto query = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
    std::printf("%s says %s\n", name, !query ? "nothing: this MPI does not have it" : query() ? "yes" : "no");
  }
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) {
    std::fprintf(stderr, "gpu_aware: needs 2 ranks\n");
    MPI_Finalize();
    return 2;
  }
  choose_gpu(MPI_COMM_WORLD);
  if (rank == 0) ask();
  signal(SIGSEGV, explain_and_end);  // after MPI_Init, which may install handlers of its own
  signal(SIGBUS, explain_and_end);

  // Small and large messages take different paths in most MPIs.
  bool good = true;
  for (size_t bytes : {size_t{8}, size_t{64} << 10, size_t{16} << 20}) {
    char* device;
    std::vector<char> host(bytes);
    gpuCheck(gpuMalloc(&device, bytes));
    gpuCheck(gpuMemset(device, rank == 0 ? 42 : 0, bytes));
    gpuCheck(gpuDeviceSynchronize());  // like kernels, it returns early
    if (rank == 0) {
      MPI_Send(device, static_cast<int>(bytes), MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
      MPI_Recv(device, static_cast<int>(bytes), MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      gpuCheck(gpuMemcpy(host.data(), device, bytes, gpuMemcpyDeviceToHost));
      for (char byte : host) good &= byte == 42;
    }
    gpuCheck(gpuFree(device));
  }
  if (rank == 1) std::printf("gpu_aware: %s\n", good ? "yes: device messages arrive" : "no: other bytes arrived");
  MPI_Finalize();
  return good ? 0 : 1;
}
