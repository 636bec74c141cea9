// SPDX-License-Identifier: Apache-2.0
//
// A GPU stream with a communicator, as programs that enqueue MPI operations have it.

#pragma once

#define FAIRLEAD_STREAM_KEEP_THREAD_LEVEL
#include <fairlead/stream.h>

#include <string>

#include "bench/device_copy.h"
#include "bench/mpi/ranks.h"

namespace fairlead::tools {

// Throws a Failure where the call did not succeed.
void require_mpi(int code, const char* call);

class EnqueueStream {
 public:
  // Throws a Failure where the MPI or the GPU of this rank cannot do this.
  static void require_here(const BenchArguments& arguments, int device);

  EnqueueStream(const BenchArguments& arguments, int device, MPI_Comm parent);  // collective
  ~EnqueueStream();
  EnqueueStream(const EnqueueStream&) = delete;
  EnqueueStream& operator=(const EnqueueStream&) = delete;

  MPI_Comm comm() const { return comm_; }
  void* native() const { return runtime_->native(stream_.get()); }
  // Whether graphs can contain operations.
  bool captures() const { return std::string(runtime_->name()) != "rocm"; }

  // A kernel of one thread that takes two addresses.
  device::Kernel kernel(const char* name);
  void launch(device::Kernel kernel, void* first, void* second);
  void synchronize();

  // What is enqueued between the two does not begin.
  void hold();
  void release();

  void begin_capture();
  device::Graph end_capture();
  void launch(device::Graph graph);
  void destroy(device::Graph graph) { runtime_->destroy_graph(graph); }

 private:
  void require(device::Error error, const char* doing) const;

  const BenchArguments& arguments_;
  int device_;
  device::Runtime* runtime_;
  OwnedStream stream_;
  uint32_t* word_ = nullptr;
  uint32_t held_ = 0;
  MPIX_Stream handle_ = MPIX_STREAM_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace fairlead::tools
