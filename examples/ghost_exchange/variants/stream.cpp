// SPDX-License-Identifier: Apache-2.0
//
// As "device", but the host waits for nothing: it enqueues kernels and messages on a stream, and the GPU does
// them in this order. The functions are those of MPICH 5, and Fairlead's for every MPI (docs/streams.md).

#include <cstdio>

#include "../stream_exchange.h"
#include "../variants.h"

namespace ghost {
namespace {

// An MPI that has the function ends the job itself where it fails; one without Fairlead may lack it, and goes
// on.
void need(int error, const char* function) {
  if (error == MPI_SUCCESS) return;
  std::fprintf(stderr, "ghost_exchange: %s failed; the variants stream and graph need Fairlead\n", function);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

}  // namespace

MessageStream::MessageStream(MPI_Comm parent) {
  gpuCheck(gpuStreamCreate(&stream_));
  auto native = gpuStreamNative(stream_);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", gpuStreamType);
  need(MPIX_Info_set_hex(info, "value", &native, sizeof native), "MPIX_Info_set_hex");
  need(MPIX_Stream_create(info, &of_mpi_), "MPIX_Stream_create");
  MPI_Info_free(&info);
  need(MPIX_Stream_comm_create(parent, of_mpi_, &comm_), "MPIX_Stream_comm_create");
}

MessageStream::~MessageStream() {
  MPI_Comm_free(&comm_);  // waits for the messages
  MPIX_Stream_free(&of_mpi_);
  gpuCheck(gpuStreamDestroy(stream_));
}

void StreamExchange::start(double* x) {
  columns_.pack_on(stream(), x);
  for (Side side : {left, right}) add(columns_.receive(side), columns_.send(side), columns_.count, side);
  if (grid_.corners) {
    wait();
    columns_.unpack_on(stream(), x);
  }
  for (Side side : {bottom, top})
    for (int piece = 0; piece < rows_.pieces; ++piece)
      add(x + rows_.receive(side, piece), x + rows_.send(side, piece), rows_.count, side);
}

void StreamExchange::finish(double* x) {
  wait();
  if (!grid_.corners) columns_.unpack_on(stream(), x);
}

// The stream waits for the host before each message, so one to MPI_PROC_NULL would take time for nothing.
void StreamExchange::add(double* receive, const double* send, int count, Side side) {
  if (grid_.at_edge(side)) return;
  int neighbour = grid_.neighbour[side];
  MPI_Comm comm = stream_.comm();
  MPIX_Irecv_enqueue(receive, count, MPI_DOUBLE, neighbour, opposite(side), comm, &requests_.emplace_back());
  MPIX_Isend_enqueue(send, count, MPI_DOUBLE, neighbour, side, comm, &requests_.emplace_back());
}

// The stream waits, not the host.
void StreamExchange::wait() {
  MPIX_Waitall_enqueue(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
}

std::unique_ptr<Exchange> stream_exchange(const Grid& grid) {
  return std::make_unique<StreamExchange>(grid);
}

}  // namespace ghost
