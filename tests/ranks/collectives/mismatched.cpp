// SPDX-License-Identifier: Apache-2.0
//
// A program of four ranks with one mistake in a collective, or in the last case none, for
// launch/mismatch_check.py: mismatched CASE. The buffers are in device memory on the even ranks.

#include <mpi.h>

#include <cstdio>
#include <cstring>

#include "fairlead/device.h"

namespace {

constexpr int elements = 64;
int rank = 0;
void *sent = nullptr, *received = nullptr;
const MPI_Comm world = MPI_COMM_WORLD;
// The second rank differs.
int odd(int usual, int other) {
  return rank == 1 ? other : usual;
}

void complete(MPI_Request request) {
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void function() {
  if (rank == 1)
    MPI_Bcast(sent, 4, MPI_INT, 0, world);
  else
    MPI_Allreduce(sent, received, 8, MPI_INT, MPI_SUM, world);
}
void blocking() {
  MPI_Request request;
  if (rank != 1) {
    MPI_Barrier(world);
  } else {
    MPI_Ibarrier(world, &request);
    complete(request);
  }
}
void count() {
  MPI_Allreduce(sent, received, odd(4, 8), MPI_INT, MPI_SUM, world);
}
void datatype() {
  MPI_Allreduce(sent, received, 4, rank == 1 ? MPI_FLOAT : MPI_INT, MPI_SUM, world);
}
void operation() {
  MPI_Reduce(sent, received, 4, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, 0, world);
}
void root() {
  MPI_Bcast(sent, 4, MPI_INT, odd(0, 1), world);
}
void scattered() {
  const int counts[] = {4, 4, 3, 4}, places[] = {0, 4, 8, 12};
  MPI_Scatterv(sent, counts, places, MPI_INT, received, 4, MPI_INT, 0, world);
}
void exchanged() {
  const int counts[] = {4, 4, odd(4, 3), 4}, expected[] = {4, 4, 4, 4}, places[] = {0, 4, 8, 12};
  MPI_Alltoallv(sent, counts, places, MPI_INT, received, expected, places, MPI_INT, world);
}
void counts() {
  const int parts[] = {4, odd(4, 5), odd(4, 3), 4};
  MPI_Reduce_scatter(sent, received, parts, MPI_INT, MPI_SUM, world);
}
void gathered_otherwise() {
  MPI_Allgather(sent, 4, MPI_INT, received, 4, MPI_FLOAT, world);
}
void nonblocking() {
  MPI_Request request;
  MPI_Ibcast(sent, odd(4, 8), MPI_INT, 0, world, &request);
  complete(request);
  MPI_Barrier(world);
}
void part() {
  MPI_Comm half;
  MPI_Comm_split(world, rank % 2, 0, &half);
  if (rank % 2 == 1) MPI_Bcast(sent, rank == 1 ? 4 : 8, MPI_INT, 0, half);
}
// Equal signatures in different words; the arguments that are not significant have any value.
void none() {
  MPI_Datatype four, gaps;
  MPI_Type_contiguous(4, MPI_INT, &four);
  MPI_Type_commit(&four);
  const int lengths[] = {1, 2}, places[] = {0, 2};
  MPI_Type_indexed(2, lengths, places, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  if (rank == 0)
    MPI_Bcast(sent, 3, four, 0, world);
  else if (rank == 1)
    MPI_Bcast(sent, 12, MPI_INT, 0, world);
  else
    MPI_Bcast(sent, 4, gaps, 0, world);
  const int parts[] = {1, 2, 3, 4}, at[] = {0, 1, 3, 6};
  MPI_Gatherv(sent, rank + 1, MPI_INT, received, rank == 2 ? parts : nullptr, rank == 2 ? at : nullptr,
              rank == 2 ? MPI_INT : MPI_DATATYPE_NULL, 2, world);
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, received, parts, at, MPI_INT, world);
  MPI_Alltoall(MPI_IN_PLACE, 77, MPI_CHAR, received, 1, four, world);
  MPI_Scatter(sent, rank == 3 ? 1 : 9, four, rank == 3 ? MPI_IN_PLACE : received, 4, MPI_INT, 3, world);
  MPI_Request requests[2];
  MPI_Iallreduce(sent, received, 4, MPI_INT, MPI_MAX, world, &requests[0]);
  MPI_Ibarrier(world, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Type_free(&four);
  MPI_Type_free(&gaps);
}

const struct {
  const char* name;
  void (*run)();
} cases[] = {
    {"function", function},
    {"blocking", blocking},
    {"count", count},
    {"datatype", datatype},
    {"operation", operation},
    {"root", root},
    {"scattered", scattered},
    {"exchanged", exchanged},
    {"counts", counts},
    {"gathered_otherwise", gathered_otherwise},
    {"nonblocking", nonblocking},
    {"part", part},
    {"none", none},
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // An error of the host MPI comes no earlier than the message of the check.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  static int on_host[2][elements];
  sent = on_host[0], received = on_host[1];
  if (rank % 2 == 0) {
    fairlead_device_malloc(&sent, sizeof on_host[0]);
    fairlead_device_malloc(&received, sizeof on_host[1]);
  }
  bool found = false;
  for (const auto& [name, run] : cases) {
    if (argc < 2 || std::strcmp(argv[1], name) != 0) continue;
    found = true;
    run();
  }
  MPI_Finalize();
  if (rank == 0) std::puts(found ? "finished" : "no such case");
  return found ? 0 : 2;
}
