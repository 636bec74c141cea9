// SPDX-License-Identifier: Apache-2.0
//
// How programs order their work, for drivers with a CUDA-like API: the application's own streams, words in
// memory, host functions, capture and graphs. Adds these to DriverRuntime; a vendor's class derives from
// this.

#pragma once

#include <cstdint>
#include <memory>

#include "device/cuda_hip/kernels.h"

namespace fairlead::device {

template <class Abi>
class OrderedRuntime : public KernelRuntime<Abi> {
  using Base = KernelRuntime<Abi>;

 public:
  // Null stands for the default stream in every release of both drivers, 1 only in later ones of HIP.
  Error adopt_stream(void* native, Stream* stream, int* device) override {
    enum : uintptr_t { legacy = 1, per_thread = 2 };
    const auto handle = reinterpret_cast<uintptr_t>(native);
    auto record = std::make_unique<StreamRecord>();
    record->adopted = true;
    if (handle != legacy) record->handle = static_cast<typename Abi::Stream>(native);
    int its = 0;
    Error error = handle <= per_thread ? this->current_device(&its) : device_of(record->handle, &its);
    if (error != Error::none) return error;
    (void)this->has_context(its);  // the program may have reset the device before it made the stream
    record->made = this->made_on(*device = its);
    *stream = reinterpret_cast<Stream>(record.release());
    return Error::none;
  }

  // A query of the default stream covers all streams that synchronise with it. An event recorded there would
  // give the same answer, but only after the GPU has reached it, and it would make these streams wait for
  // each other. While one of them is being captured into a graph, the query itself would invalidate the
  // capture.
  Error query_application(int device) override {
    if (Error error = this->check_device(device); error != Error::none) return error;
    if (!this->has_context(device)) return Error::none;
    return this->on(device, [&] {
      const Error error = check_no_blocking_capture();
      return error == Error::none ? this->call(api_.stream_query, typename Abi::Stream{}) : error;
    });
  }

  bool has_word_operations(int device) override {
    return api_.write_word && api_.wait_word && this->has(Abi::device_has_words, device);
  }

  Error write_word(Stream stream, uint32_t* address, uint32_t value) override {
    return on_stream(stream, api_.write_word, [&](StreamRecord& record) {
      return write_word_on(record.handle, device_address(address), value);
    });
  }

  Error wait_word(Stream stream, const uint32_t* address, uint32_t value) override {
    return on_stream(stream, api_.wait_word, [&](StreamRecord& record) {
      return wait_word_on(record.handle, device_address(address), value);
    });
  }

  Error access_words(Stream stream, const WordAccess* accesses, size_t count) override {
    return on_stream(stream, api_.wait_word,
                     [&](StreamRecord& record) { return access_words_on(record.handle, accesses, count); });
  }

  Error call_host(Stream stream, void (*function)(void*), void* argument) override {
    return on_stream(stream, api_.call_host, [&](StreamRecord& record) {
      return this->call(api_.call_host, record.handle, function, argument);
    });
  }

  Error capture_of(Stream stream, Capture* capture) override {
    return on_stream(stream, api_.capture_info,
                     [&](StreamRecord& record) { return capture_on(record.handle, capture); });
  }

  // The driver's numbers are those of the enumeration. Needs no context.
  Error exchange_capture_mode(CaptureMode* mode) override {
    if (!this->in_use()) return this->refuse(Error::not_initialized, "there can be no capture");
    if (!api_.capture_mode) return this->refuse(Error::not_supported, api_.capture_mode.symbol);
    int number = static_cast<int>(*mode);
    Error error = this->call(api_.capture_mode, &number);
    if (error == Error::none) *mode = static_cast<CaptureMode>(number);
    return error;
  }

  Error begin_capture(Stream stream, CaptureMode mode) override {
    return on_stream(stream, api_.begin_capture, [&](StreamRecord& record) {
      return this->call(api_.begin_capture, record.handle, static_cast<int>(mode));
    });
  }

  Error end_capture(Stream stream, Graph* graph) override {
    if (!api_.graph_instantiate || !api_.graph_destroy || !api_.graph_launch || !api_.graph_forget)
      return this->refuse(Error::not_supported, api_.graph_instantiate.symbol);
    return on_stream(stream, api_.end_capture, [&](StreamRecord& record) {
      typename Abi::Graph captured{};
      auto made = std::make_unique<GraphRecord>();
      if (Error error = this->call(api_.end_capture, record.handle, &captured); error != Error::none)
        return error;
      Error error = this->call(api_.graph_instantiate, &made->runnable, captured, 0ull);
      api_.graph_destroy(captured);
      made->made = record.made;
      if (error == Error::none) *graph = reinterpret_cast<Graph>(made.release());
      return error;
    });
  }

  Error launch_graph(Graph graph, Stream stream) override {
    if (this->is_gone(record_of(graph)->made)) return this->refuse_gone();
    return on_stream(stream, api_.graph_launch, [&](StreamRecord& record) {
      return this->call(api_.graph_launch, record_of(graph)->runnable, record.handle);
    });
  }

  Error destroy_graph(Graph graph) override {
    std::unique_ptr<GraphRecord> record(record_of(graph));
    return this->end(record->made, [&] { return this->call(api_.graph_forget, record->runnable); });
  }

  void* address_for_kernels(int device, void* registered) override {
    typename Abi::Address there{};
    const Error error =
        this->on(device, [&] { return this->call(api_.host_address, &there, registered, 0u); });
    return error == Error::none ? Base::from_driver(there) : nullptr;
  }

 protected:
  using Base::api_;
  using Base::Base;
  using Base::record_of;
  using typename Base::StreamRecord;

  // Error::capturing while a stream of the current device that synchronises with the default stream is being
  // captured. Does the capture no harm.
  Error check_no_blocking_capture() {
    int state = 0;
    if (!api_.stream_capturing) return Error::none;
    return this->call(api_.stream_capturing, typename Abi::Stream{}, &state);
  }
  // Returns the device of a stream that the application created.
  virtual Error device_of(typename Abi::Stream stream, int* device) = 0;
  // The functions below run while the right device is current.
  virtual Error wait_word_on(typename Abi::Stream stream, typename Abi::Address address, uint32_t value) = 0;
  virtual Error write_word_on(typename Abi::Stream stream, typename Abi::Address address, uint32_t value) {
    return this->call(api_.write_word, stream, address, value, unsigned{driver_flag::write_value_default});
  }

  virtual Error access_words_on(typename Abi::Stream stream, const WordAccess* accesses, size_t count) {
    Error error = Error::none;
    for (size_t i = 0; i < count && error == Error::none; ++i) {
      const typename Abi::Address address = device_address(accesses[i].word);
      error = accesses[i].waits ? wait_word_on(stream, address, accesses[i].value)
                                : write_word_on(stream, address, accesses[i].value);
    }
    return error;
  }

  // The GPU may see registered host memory at another address than the host. Any other memory is where it is.
  typename Abi::Address device_address(const void* address) {
    typename Abi::Address there{};
    if (api_.host_address(&there, const_cast<void*>(address), 0u) == driver_result::success) return there;
    this->forget_result();
    return Base::to_driver(address);
  }

  Error capture_on(typename Abi::Stream stream, Capture* capture) {
    int status = driver_flag::capture_none;
    unsigned long long id = 0;
    Error error = capture_info(stream, &status, &id);
    if (error != Error::none) return error;
    if (status == driver_flag::capture_none)
      *capture = {};
    else if (status == driver_flag::capture_active)
      *capture = {Capture::State::active, id};
    else
      *capture = {Capture::State::invalidated, 0};
    return Error::none;
  }
  virtual Error capture_info(typename Abi::Stream stream, int* status, unsigned long long* id) = 0;

 private:
  struct GraphRecord {
    typename Abi::RunnableGraph runnable{};
    typename Base::Made made;
  };
  static GraphRecord* record_of(Graph graph) { return reinterpret_cast<GraphRecord*>(graph); }

  // Runs `work` on the stream's device if the driver has this function.
  template <class Function, class Work>
  Error on_stream(Stream stream, const Function& function, Work work) {
    if (!function) return this->refuse(Error::not_supported, function.symbol);
    return this->with(stream, work);
  }
};

}  // namespace fairlead::device
