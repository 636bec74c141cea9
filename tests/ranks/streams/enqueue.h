// SPDX-License-Identifier: Apache-2.0
//
// A GPU stream with a communicator, for tests of operations on it.

#pragma once

#define FAIRLEAD_STREAM_KEEP_THREAD_LEVEL
#include <fairlead/stream.h>

#include <algorithm>

#include "device/runtime.h"
#include "harness/harness.h"

namespace ranks {

namespace device = fairlead::device;
using device::Error;
using device::StreamKind;

constexpr int tag = 51;

inline const char* why_not() {
  if (host_oracle) return "needs GPU streams";
  if (!threads) return "needs TEST_THREADS=1";
  return device::whole_runtime()->has_word_operations(0) ? nullptr : "this GPU cannot wait for words";
}

inline const char* why_no_graphs() {
  if (const char* reason = why_not()) return reason;
  return device::whole_runtime()->captures_words() ? nullptr : "this driver does not capture waits for words";
}

#define DRIVER(call) EXPECT((call) == Error::none, "%s: %s", #call, device::whole_runtime()->error_text())

// A stream of the program, with a communicator, and a word that holds it.
class Stream {
 public:
  explicit Stream(StreamKind kind = StreamKind::non_blocking, MPI_Comm parent = MPI_COMM_WORLD) {
    DRIVER(gpu().current_device(&device_));
    DRIVER(gpu().create_stream(device_, &stream_, kind));
    void* word = nullptr;
    DRIVER(gpu().allocate_pinned(sizeof(uint32_t), &word));
    word_ = static_cast<uint32_t*>(word);
    *word_ = 0;
    void* native = gpu().native(stream_);
    MPI_Info info = MPI_INFO_NULL;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "type", std::string(gpu().name()) == "rocm" ? "hipStream_t" : "cudaStream_t"));
    MUST(MPIX_Info_set_hex(info, "value", &native, sizeof native));
    MUST(MPIX_Stream_create(info, &handle_));
    MUST(MPI_Info_free(&info));
    MUST(MPIX_Stream_comm_create(parent, handle_, &comm_));
    MUST(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  }
  ~Stream() {
    if (comm_ != MPI_COMM_NULL) MUST(MPI_Comm_free(&comm_));
    MUST(MPIX_Stream_free(&handle_));
    synchronize();
    DRIVER(gpu().destroy_stream(stream_));
    DRIVER(gpu().free_pinned(word_));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  static device::Runtime& gpu() { return *device::whole_runtime(); }
  MPI_Comm comm() const { return comm_; }
  device::Stream get() const { return stream_; }

  void hold() { DRIVER(gpu().wait_word(stream_, word_, ++held_)); }
  void release() { __atomic_store_n(word_, held_, __ATOMIC_RELEASE); }
  void copy(const Memory& to, const Memory& from) {
    DRIVER(gpu().copy(to.data(), from.data(), std::min(to.bytes(), from.bytes()), stream_));
  }
  // What the function enqueues.
  template <class Enqueue>
  device::Graph capture(Enqueue enqueue) const {
    device::Graph graph = nullptr;
    DRIVER(gpu().begin_capture(stream_));
    enqueue();
    DRIVER(gpu().end_capture(stream_, &graph));
    return graph;
  }
  void synchronize() const { DRIVER(gpu().synchronize_stream(stream_)); }

 private:
  int device_ = 0;
  device::Stream stream_ = nullptr;
  uint32_t* word_ = nullptr;
  uint32_t held_ = 0;
  MPIX_Stream handle_ = MPIX_STREAM_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

inline int count(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

inline Memory pattern(size_t bytes, uint64_t key) {
  Memory made(Place::device, bytes);
  made.fill(key);
  return made;
}

}  // namespace ranks
