// SPDX-License-Identifier: Apache-2.0
//
// Programs that hang, for hang_check.py: each is a mistake that programs make. The second argument says where
// their buffers are.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fairlead/device.h"
#include "fairlead/stream.h"

namespace {

constexpr int bytes = 1 << 20;
int rank = 0, size = 0;
void *buffer = nullptr, *other = nullptr;

void* memory(bool device) {
  void* address = nullptr;
  if (!device) return std::calloc(bytes, 1);
  if (fairlead_device_malloc(&address, bytes) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  return address;
}

void send_to(int peer, int tag, int count = 8) {
  MPI_Send(buffer, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
}
void receive_from(int peer, int tag) {
  MPI_Recv(other, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
void allreduce(MPI_Comm comm = MPI_COMM_WORLD) {
  MPI_Allreduce(buffer, other, 4, MPI_DOUBLE, MPI_SUM, comm);
}

void two_sends() {
  send_to((rank + 1) % size, 5, bytes);
  receive_from((rank + size - 1) % size, 5);
}

void peer_in_finalize() {
  if (rank == 0) receive_from(1, 7);
}

void skips_allreduce() {
  if (rank != 1) allreduce();
  MPI_Barrier(MPI_COMM_WORLD);
}

void other_collective() {
  if (rank == 0)
    allreduce();
  else
    MPI_Bcast(buffer, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

// The broadcast from rank 0 ends there, where a barrier follows.
void other_root() {
  MPI_Bcast(buffer, bytes, MPI_BYTE, rank == 0 ? 1 : 2, MPI_COMM_WORLD);
}

void wrong_tag() {
  if (rank == 1) send_to(0, 3);
  if (rank == 0) receive_from(1, 3);
  if (rank == 1) send_to(0, 8);
  if (rank == 0) receive_from(1, 7);
  MPI_Barrier(MPI_COMM_WORLD);
}

// On a communicator for which each rank has a name of its own.
void skips_into_receive() {
  MPI_Comm duplicate;
  MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
  MPI_Comm_set_name(duplicate, std::to_string(rank).c_str());
  if (rank == 1)
    receive_from(0, 4);
  else
    allreduce(duplicate);
}

// Nonblocking, on a communicator of the program's, which the ranks number otherwise.
void waits_for_all() {
  MPI_Comm row, duplicate;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &row);
  MPI_Comm_dup(row, &duplicate);
  MPI_Comm_set_name(duplicate, "rows");
  const int own = size - 1 - rank;
  MPI_Request requests[2];
  MPI_Irecv(other, bytes, MPI_BYTE, (own + size - 1) % size, 2, duplicate, &requests[0]);
  MPI_Isend(buffer, 8, MPI_BYTE, (own + 1) % size, own == 0 ? 1 : 2, duplicate, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

// Of the process, with a communicator.
fairlead_device_stream* stream = nullptr;
MPI_Comm make_stream() {
  MPIX_Stream mpi_stream;
  MPI_Comm comm;
  if (fairlead_device_stream_create(&stream) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  void* const native = fairlead_device_stream_native(stream);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  MPIX_Info_set_hex(info, "value", &native, sizeof native);
  MPIX_Stream_create(info, &mpi_stream);
  MPIX_Stream_comm_create(MPI_COMM_WORLD, mpi_stream, &comm);
  return comm;
}

// Each rank waits for a GPU stream of its own, outside MPI.
void streams_wait() {
  MPI_Comm comm = make_stream();
  if (rank == 1) MPIX_Send_enqueue(buffer, 8, MPI_BYTE, 0, 8, comm);
  MPIX_Recv_enqueue(other, bytes, MPI_BYTE, (rank + 1) % size, 7, comm, MPI_STATUS_IGNORE);
  fairlead_device_stream_synchronize(stream);
}

void enqueue_allreduce(MPI_Comm comm, MPI_Op op) {
  MPIX_Allreduce_enqueue(buffer, other, 4, MPI_INT, op, comm);
}

// The second one.
void skip_enqueued(MPI_Op op) {
  MPI_Comm comm = make_stream();
  enqueue_allreduce(comm, op);
  if (rank != 1) enqueue_allreduce(comm, op);
  fairlead_device_stream_synchronize(stream);
  MPI_Barrier(MPI_COMM_WORLD);
}
void skips_enqueued() {
  skip_enqueued(MPI_SUM);
}
// One that does not run in streams.
void skips_enqueued_of_cpu() {
  skip_enqueued(MPI_BXOR);
}

// The streams pass the first one, with what is no result.
void other_enqueued() {
  MPI_Comm comm = make_stream();
  if (rank == 1) MPIX_Bcast_enqueue(buffer, 4, MPI_DOUBLE, 0, comm);
  enqueue_allreduce(comm, MPI_SUM);
  fairlead_device_stream_synchronize(stream);
  MPI_Barrier(MPI_COMM_WORLD);
}

// Twice each, so that all streams pass them.
void replays_enqueued() {
  MPI_Comm comm = make_stream();
  fairlead_device_graph* graph = nullptr;
  if (rank == 0) fairlead_device_capture_begin(stream);
  enqueue_allreduce(comm, MPI_SUM);
  if (rank == 0) fairlead_device_capture_end(stream, &graph);
  for (int i = 0; rank == 0 && i < 2; ++i) fairlead_device_graph_launch(graph, stream);
  if (rank != 0) enqueue_allreduce(comm, MPI_SUM);
  fairlead_device_stream_synchronize(stream);
  skips_into_receive();
}

void dies_at_once() {
  if (rank == 1) {
    sleep(1);  // launchers lose what a process says that ends at once
    std::abort();
  }
  receive_from(1, 6);
}

void dies() {
  MPI_Comm freed;
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  MPI_Comm_free(&freed);
  MPI_Bcast(buffer, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
  dies_at_once();
}

struct Program {
  const char* name;
  void (*run)();
};
constexpr Program programs[] = {
    {"two_sends", two_sends},
    {"peer_in_finalize", peer_in_finalize},
    {"skips_allreduce", skips_allreduce},
    {"other_collective", other_collective},
    {"other_root", other_root},
    {"wrong_tag", wrong_tag},
    {"skips_into_receive", skips_into_receive},
    {"waits_for_all", waits_for_all},
    {"streams_wait", streams_wait},
    {"skips_enqueued", skips_enqueued},
    {"skips_enqueued_of_cpu", skips_enqueued_of_cpu},
    {"other_enqueued", other_enqueued},
    {"replays_enqueued", replays_enqueued},
    {"dies", dies},
    {"dies_at_once", dies_at_once},
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const bool device = argc > 2 && std::strcmp(argv[2], "device") == 0;
  buffer = memory(device);
  other = memory(device);
  for (const Program& program : programs)
    if (argc > 1 && std::strcmp(argv[1], program.name) == 0) program.run();
  MPI_Finalize();
}
