// SPDX-License-Identifier: Apache-2.0
//
// The exchange as work of a GPU stream: start() and finish() enqueue kernels and messages, and return.

#pragma once

#define FAIRLEAD_STREAM_KEEP_THREAD_LEVEL  // each variant names its own
#include <fairlead/stream.h>

#include "exchange.h"

namespace ghost {

// A stream of its own, and a communicator whose messages follow the order of the stream. The solver's kernels
// are on the default stream. A stream of gpuStreamCreate() synchronises with that one, so the solver needs no
// events, and is the same for all variants. The default stream itself would not do: it cannot be captured
// into a graph.
class MessageStream {
 public:
  explicit MessageStream(MPI_Comm parent);
  ~MessageStream();
  MessageStream(const MessageStream&) = delete;
  MessageStream& operator=(const MessageStream&) = delete;

  gpuStream_t get() const { return stream_; }
  MPI_Comm comm() const { return comm_; }

 private:
  gpuStream_t stream_;
  MPIX_Stream of_mpi_ = MPIX_STREAM_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

class StreamExchange : public Exchange {
 public:
  explicit StreamExchange(const Grid& grid);
  ~StreamExchange() override;

  void start(double* x) override;
  void finish(double* x) override;

 protected:
  gpuStream_t stream() const { return stream_.get(); }

 private:
  void exchange(double* x, bool rows, bool columns);

  const Grid& grid_;
  Columns columns_;
  Rows rows_;
  MPI_Datatype row_, column_;  // the cells that one message carries
  MessageStream stream_;
};

}  // namespace ghost
