// SPDX-License-Identifier: Apache-2.0
//
// A program of three ranks whose messages are known, for statistics_check.py and trace_check.py, which
// compare them with what Fairlead recorded. Rank 0 asks for its own statistics by SIGUSR1 in the middle.

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fairlead/device.h"
#include "fairlead/phases.h"

#ifdef WITH_FORTRAN  // observed_phases.f90
extern "C" void begin_reductions();
extern "C" void end_reductions();
#else
static void begin_reductions() {
  fairlead_phase_begin("reductions");
}
static void end_reductions() {
  fairlead_phase_end();
}
#endif

namespace {

constexpr int large_count = 7, large_bytes = 65536;
constexpr int small_count = 5, small_bytes = 1024;
constexpr int host_count = 4, host_bytes = 16;
constexpr int gaps_count = 2;
constexpr int reductions = 3, doubles = 1000;
constexpr int puts = 4, put_bytes = 512;

int rank = 0;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void* device_memory(size_t bytes) {
  void* address = nullptr;
  require(fairlead_device_malloc(&address, bytes) == 0 && fairlead_device_fill(address, rank, bytes) == 0,
          "no device memory");
  return address;
}

// Rank 0 to rank 1, one at a time.
void send_large(void* buffer) {
  for (int i = 0; i < large_count; ++i) {
    if (rank == 0) MPI_Send(buffer, large_bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(buffer, large_bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

// Rank 1 to rank 2, all at once.
void send_small(char* buffer) {
  MPI_Request requests[small_count];
  for (int i = 0; i < small_count; ++i) {
    char* part = buffer + i * small_bytes;
    if (rank == 1) MPI_Isend(part, small_bytes, MPI_BYTE, 2, 2, MPI_COMM_WORLD, &requests[i]);
    if (rank == 2) MPI_Irecv(part, small_bytes, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
  }
  if (rank > 0) MPI_Waitall(small_count, requests, MPI_STATUSES_IGNORE);
}

void send_host() {
  char bytes[host_bytes] = {};
  for (int i = 0; i < host_count; ++i) {
    if (rank == 0) MPI_Send(bytes, host_bytes, MPI_BYTE, 2, 3, MPI_COMM_WORLD);
    if (rank == 2) MPI_Recv(bytes, host_bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

// Rank 2 to rank 0: every other double.
void send_with_gaps(void* buffer) {
  MPI_Datatype every_other;
  MPI_Type_vector(100, 1, 2, MPI_DOUBLE, &every_other);
  MPI_Type_commit(&every_other);
  for (int i = 0; i < gaps_count; ++i) {
    if (rank == 2) MPI_Send(buffer, 1, every_other, 0, 4, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(buffer, 1, every_other, 2, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&every_other);
}

// Rank 1 into the memory of rank 2.
void put(void* from, void* to) {
  MPI_Win window;
  MPI_Win_create(to, large_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  for (int i = 0; rank == 1 && i < puts; ++i)
    MPI_Put(from, put_bytes, MPI_BYTE, 2, i * put_bytes, put_bytes, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

void reduce(void* from, void* to) {
  for (int i = 0; i < reductions; ++i) MPI_Allreduce(from, to, doubles, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

// The others wait for rank 1. A second is longer than a busy machine delays one of them.
void come_late() {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  require(size == 3, "needs 3 ranks");
  void* one = device_memory(large_bytes);
  void* other = device_memory(large_bytes);
  {
    fairlead::Phase phase("messages");
    send_large(one);
    if (rank == 0) raise(SIGUSR1);
    fairlead_phase_begin("small \"ones\"");
    send_small(static_cast<char*>(one));
    fairlead_phase_end();
    send_host();
    send_with_gaps(one);
  }
  for (int i = 0; i <= rank; ++i) {
    begin_reductions();
    if (i == rank) reduce(one, other);
    end_reductions();
  }
  put(one, other);
  come_late();
  MPI_Send(one, large_bytes, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);  // moves nothing
  fairlead_device_free(one);
  fairlead_device_free(other);
  MPI_Finalize();
}
