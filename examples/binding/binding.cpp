// SPDX-License-Identifier: Apache-2.0
//
// Prints which GPU and which cores each rank uses. The ranks of a node take its GPUs in turn (choose_gpu.h); the
// launcher decides whether the cores are near that GPU, so start it under the launcher of your job.

#include <mpi.h>
#include <sched.h>

#include <cstdio>
#include <string>

#include "../choose_gpu.h"

// The cores that this process may run on, such as "0-3,8".
std::string cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "unknown";
  std::string text;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set)) continue;
    int last = core;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(core) + (last > core ? "-" + std::to_string(last) : "");
    core = last;
  }
  return text;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, length;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int gpu = choose_gpu(MPI_COMM_WORLD);

  char host[MPI_MAX_PROCESSOR_NAME], pci[64] = "", line[512];
  MPI_Get_processor_name(host, &length);
  gpuCheck(gpuDeviceGetPCIBusId(pci, sizeof pci, gpu));
  std::snprintf(line, sizeof line, "rank %d: host %s, GPU %d (%s), cores %s\n", rank, host, gpu, pci,
                cores().c_str());

  // Rank 0 prints the lines of all ranks, in their order.
  if (rank != 0) {
    MPI_Send(line, sizeof line, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  } else {
    std::fputs(line, stdout);
    for (int other = 1; other < ranks; ++other) {
      MPI_Recv(line, sizeof line, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      std::fputs(line, stdout);
    }
  }
  MPI_Finalize();
  return 0;
}
