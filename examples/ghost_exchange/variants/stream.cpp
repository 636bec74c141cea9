// SPDX-License-Identifier: Apache-2.0
//
// As "neighbourhood", but the host waits for nothing: it enqueues kernels and the collective on a stream, and the
// GPU does them in this order, by Fairlead on every MPI (docs/use/streams.md). Each side has a datatype and an address
// of its own, so rows are sent from the array, and received into it.

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

StreamExchange::StreamExchange(const Grid& grid)
    : grid_(grid), columns_(grid, Memory::device), rows_(grid), stream_(grid.comm) {
  MPI_Type_vector(rows_.pieces, rows_.count, grid.width(), MPI_DOUBLE, &row_);
  MPI_Type_contiguous(columns_.count, MPI_DOUBLE, &column_);
  MPI_Type_commit(&row_);
  MPI_Type_commit(&column_);
}

StreamExchange::~StreamExchange() {
  MPI_Type_free(&row_);
  MPI_Type_free(&column_);
}

void StreamExchange::start(double* x) {
  columns_.pack_on(stream(), x);
  if (grid_.corners) {
    exchange(x, false, true);
    columns_.unpack_on(stream(), x);
  }
  exchange(x, true, !grid_.corners);
}

void StreamExchange::finish(double* x) {
  if (!grid_.corners) columns_.unpack_on(stream(), x);
}

// All ranks call it, and the stream waits, not the host.
void StreamExchange::exchange(double* x, bool rows, bool columns) {
  int counts[sides];
  MPI_Aint from[sides], to[sides];
  MPI_Datatype types[sides];
  for (Side side : {bottom, top, left, right}) {
    const bool row = side == bottom || side == top;
    counts[side] = row ? rows : columns;
    types[side] = row ? row_ : column_;
    MPI_Get_address(row ? x + rows_.send(side, 0) : columns_.send(side), &from[side]);
    MPI_Get_address(row ? x + rows_.receive(side, 0) : columns_.receive(side), &to[side]);
  }
  MPIX_Neighbor_alltoallw_enqueue(MPI_BOTTOM, counts, from, types, MPI_BOTTOM, counts, to, types, stream_.comm());
}

std::unique_ptr<Exchange> stream_exchange(const Grid& grid) {
  return std::make_unique<StreamExchange>(grid);
}

}  // namespace ghost
