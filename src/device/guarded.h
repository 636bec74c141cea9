// SPDX-License-Identifier: Apache-2.0
//
// A provider whose calls do not concern captures of the program, as the rest of the library calls it. A
// driver refuses some calls while a thread captures a graph, and the refused call ends the capture, unless
// the caller's mode is `relaxed` (CaptureMode). Each call of the table below is made in that mode, in
// whichever thread; the mode of the thread is the same before and after. If the driver refuses a query
// nevertheless, the answer is Error::not_ready, so that the caller asks again.

#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "device/runtime.h"

namespace fairlead::device {

// Puts the calling thread in the mode `relaxed` as long as it exists.
class Relaxed {
 public:
  explicit Relaxed(Runtime& provider)
      : provider_(provider), exchanged_(provider.exchange_capture_mode(&mode_) == Error::none) {}
  ~Relaxed() {
    if (exchanged_) (void)provider_.exchange_capture_mode(&mode_);
  }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  Runtime& provider_;
  CaptureMode mode_ = CaptureMode::relaxed;
  const bool exchanged_;
};

template <class Provider>
class Guarded final : public Provider {
 public:
  using Provider::Provider;

  Error exchange_capture_mode(CaptureMode* mode) override {
    const bool relaxes = *mode == CaptureMode::relaxed;
    const Error error = Provider::exchange_capture_mode(mode);
    // A mode that the program chose is not known to last: it may choose another one by a call of its own.
    if (error == Error::none) relaxed_ = relaxes && *mode != CaptureMode::relaxed;
    return error;
  }

#define FAIRLEAD_GUARD(name, parameters, arguments)           \
  Error name parameters override {                            \
    return guarded([&] { return Provider::name arguments; }); \
  }
  FAIRLEAD_GUARD(synchronize, (int device), (device))
  FAIRLEAD_GUARD(enable_peer, (int device, int peer), (device, peer))
  FAIRLEAD_GUARD(allocate, (int device, size_t bytes, void** address), (device, bytes, address))
  FAIRLEAD_GUARD(allocate_for_peers, (int device, size_t bytes, void** address), (device, bytes, address))
  FAIRLEAD_GUARD(allocate_managed, (int device, size_t bytes, void** address), (device, bytes, address))
  FAIRLEAD_GUARD(allocate_from_pool, (int device, size_t bytes, void** address), (device, bytes, address))
  FAIRLEAD_GUARD(allocate_virtual_in, (int location, int device, size_t bytes, void** address),
                 (location, device, bytes, address))
  FAIRLEAD_GUARD(run_on, (int device, const std::function<void()>& work), (device, work))
  FAIRLEAD_GUARD(free, (void* address), (address))
  FAIRLEAD_GUARD(allocate_pinned, (size_t bytes, void** address, int* device), (bytes, address, device))
  FAIRLEAD_GUARD(free_pinned, (void* address), (address))
  FAIRLEAD_GUARD(register_host, (void* address, size_t bytes, int* device), (address, bytes, device))
  FAIRLEAD_GUARD(unregister_host, (void* address), (address))
  FAIRLEAD_GUARD(memory_info, (int device, size_t* free, size_t* total), (device, free, total))
  FAIRLEAD_GUARD(set_sync_memops, (const void* address), (address))
  FAIRLEAD_GUARD(create_stream, (int device, Stream* stream, StreamKind kind), (device, stream, kind))
  FAIRLEAD_GUARD(destroy_stream, (Stream stream), (stream))
  FAIRLEAD_GUARD(synchronize_stream, (Stream stream), (stream))
  FAIRLEAD_GUARD(query_application, (int device), (device))
  FAIRLEAD_GUARD(create_event, (int device, Event* event), (device, event))
  FAIRLEAD_GUARD(destroy_event, (Event event), (event))
  FAIRLEAD_GUARD(end_capture, (Stream stream, Graph* graph), (stream, graph))
  FAIRLEAD_GUARD(destroy_graph, (Graph graph), (graph))
  FAIRLEAD_GUARD(ipc_export, (const void* base, IpcHandle* handle, int* file), (base, handle, file))
  FAIRLEAD_GUARD(ipc_import, (int device, const IpcHandle& handle, int file, void** base),
                 (device, handle, file, base))
  FAIRLEAD_GUARD(ipc_close, (int device, void* base), (device, base))
  FAIRLEAD_GUARD(fabric_export, (const void* base, IpcHandle* handle), (base, handle))
  FAIRLEAD_GUARD(fabric_import, (int device, const IpcHandle& handle, size_t bytes, void** base),
                 (device, handle, bytes, base))
  FAIRLEAD_GUARD(find_kernel,
                 (int device, const CodeImage* images, size_t count, const char* name, Kernel* kernel),
                 (device, images, count, name, kernel))
#undef FAIRLEAD_GUARD

  Error query_event(Event event) override {
    return or_later(guarded([&] { return Provider::query_event(event); }));
  }

  Error query_stream(Stream stream) override {
    const Error error = guarded([&] { return Provider::query_stream(stream); });
    return error == Error::capturing && is_captured(stream) ? error : or_later(error);
  }

  // A driver that can tell ends captures when it cannot.
  Error query_device(int device) override {
    std::lock_guard lock(asking_);
    Pause& pause = pauses_[device];
    const auto now = Clock::now();
    if (now < pause.end) return Error::not_ready;
    const Error error = guarded([&] { return Provider::query_device(device); });
    if (error == Error::capturing && this->queries_all_streams()) {
      pause.end = now + pause.length;
      pause.length = std::min(2 * pause.length, longest_pause);
    }
    return or_later(error);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds longest_pause{64};
  struct Pause {
    Clock::time_point end{};
    std::chrono::seconds length{1};
  };

  template <class Call>
  Error guarded(Call call) {
    if (relaxed_) return call();
    const Relaxed relaxed(*this);
    return call();
  }

  static Error or_later(Error error) {
    return error == Error::capturing ? Error::not_ready : error;
  }

  bool is_captured(Stream stream) {
    Capture capture;
    return Provider::capture_of(stream, &capture) == Error::none && capture.state != Capture::State::none;
  }

  static inline thread_local bool relaxed_ = false;
  std::mutex asking_;
  std::map<int, Pause> pauses_;  // by device
};

}  // namespace fairlead::device
