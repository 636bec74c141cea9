// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/streams/enqueue_stream.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "bench/mpi/bench_kernels.h"

namespace fairlead::tools {
namespace {

// Why no stream can have a communicator here; empty where one can.
std::string lacking(device::Runtime* runtime, int device) {
  int granted = MPI_THREAD_SINGLE;
  MPI_Query_thread(&granted);
  if (granted < MPI_THREAD_MULTIPLE) return "this MPI grants no MPI_THREAD_MULTIPLE";
  if (!dlsym(RTLD_DEFAULT, "MPIX_Stream_comm_create"))
    return "without Fairlead this MPI has no MPIX_Stream_comm_create; leave --no-preload out";
  return runtime->has_word_operations(device) ? "" : "this GPU's streams cannot wait for words in memory";
}

}  // namespace

void require_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw cannot_run(fmt::format("{}: {}", call, text_of_error(code)));
}

void EnqueueStream::require_here(const BenchArguments& arguments, int device) {
  if (const std::string why = lacking(runtime_with_devices(arguments), device); !why.empty())
    throw cannot_run(arguments.name_in_refusals() + why);
}

EnqueueStream::EnqueueStream(const BenchArguments& arguments, int device, MPI_Comm parent)
    : arguments_(arguments),
      device_(device),
      runtime_(runtime_with_devices(arguments)),
      stream_(runtime_, device, arguments) {
  void* word = nullptr;
  require(runtime_->allocate_pinned(sizeof(uint32_t), &word), "cannot allocate a word");
  word_ = static_cast<uint32_t*>(word);
  *word_ = 0;
  void* stream = native();
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", std::string(runtime_->name()) == "rocm" ? "hipStream_t" : "cudaStream_t");
  MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
  const int created = MPIX_Stream_create(info, &handle_);
  MPI_Info_free(&info);
  require_mpi(created, "MPIX_Stream_create");
  require_mpi(MPIX_Stream_comm_create(parent, handle_, &comm_), "MPIX_Stream_comm_create");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

EnqueueStream::~EnqueueStream() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  if (handle_ != MPIX_STREAM_NULL) MPIX_Stream_free(&handle_);
  runtime_->free_pinned(word_);
}

void EnqueueStream::require(device::Error error, const char* doing) const {
  tools::require(runtime_, error, arguments_, doing);
}

device::Kernel EnqueueStream::kernel(const char* name) {
  const std::vector<device::CodeImage>& images = bench_kernel_images();
  device::Kernel found = nullptr;
  require(runtime_->find_kernel(device_, images.data(), images.size(), name, &found), "cannot load a kernel");
  return found;
}

void EnqueueStream::launch(device::Kernel kernel, void* first, void* second) {
  void* parameters[] = {&first, &second};
  require(runtime_->launch(kernel, 1, 1, parameters, stream_.get()), "cannot launch a kernel");
}

void EnqueueStream::synchronize() {
  require(runtime_->synchronize_stream(stream_.get()), "cannot wait for the stream");
}

void EnqueueStream::hold() {
  require(runtime_->wait_word(stream_.get(), word_, ++held_), "cannot hold the stream");
}

void EnqueueStream::release() {
  __atomic_store_n(word_, held_, __ATOMIC_RELEASE);
}

void EnqueueStream::begin_capture() {
  require(runtime_->begin_capture(stream_.get()), "cannot capture the stream");
}

device::Graph EnqueueStream::end_capture() {
  device::Graph graph = nullptr;
  require(runtime_->end_capture(stream_.get(), &graph), "cannot make a graph");
  return graph;
}

void EnqueueStream::launch(device::Graph graph) {
  require(runtime_->launch_graph(graph, stream_.get()), "cannot launch a graph");
}

}  // namespace fairlead::tools
