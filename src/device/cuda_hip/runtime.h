// SPDX-License-Identifier: Apache-2.0
//
// The Runtime of drivers with a CUDA-like API: all code that cuda.cpp and hip.cpp share. A vendor's class
// derives from DriverRuntime<its Abi> and adds how to make a device current, how to classify pointers, and
// the few calls whose arguments differ.

#pragma once

#include <array>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "device/cuda_hip/contexts.h"
#include "device/cuda_hip/error.h"
#include "device/cuda_hip/gpu_targets.h"
#include "device/cuda_hip/identity.h"
#include "device/cuda_hip/virtual.h"
#include "device/runtime.h"

namespace fairlead::device {

template <class Abi>
class DriverRuntime : public Runtime {
 public:
  const char* error_text() const override { return driver_error_text; }

  int version() const override {
    int version = 0;
    return api_.driver_version(&version) == driver_result::success ? version : 0;
  }

  // ---- Process and devices -------------------------------------------------------------------------
  Error initialize() override {
    if (initialized_.load(std::memory_order_acquire)) return Error::none;
    std::lock_guard lock(mutex_);
    if (initialized_) return Error::none;
    int count = 0;
    if (Error error = call(api_.init, 0u); error != Error::none) return error;
    if (Error error = call(api_.device_count, &count); error != Error::none) return error;
    if (count > max_devices) count = max_devices;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      Error error = call(api_.device_get, &devices_[ordinal], ordinal);
      if (error != Error::none) return error;
    }
    count_ = count;
    initialized_.store(true, std::memory_order_release);
    return Error::none;
  }

  Error device_count(int* count) override {
    Error error = initialize();
    if (error == Error::none) *count = count_;
    return error;
  }

  Error device_info(int device, DeviceInfo* info) override {
    if (Error error = check_device(device); error != Error::none) return error;
    auto handle = devices_[device];
    DeviceInfo found{};
    typename Abi::Uuid uuid{};
    for (Error error :
         {call(api_.device_name, found.name, int{sizeof found.name}, handle),
          call(api_.device_pci, found.pci, int{sizeof found.pci}, handle),
          call(api_.device_uuid, &uuid, handle), call(api_.device_memory, &found.memory, handle),
          call(api_.device_attribute, &found.multiprocessors, int{Abi::device_multiprocessors}, handle)}) {
      if (error != Error::none) return error;
    }
    for (char& c : found.pci) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    identify(api_, {devices_.data(), static_cast<size_t>(count_)}, static_cast<size_t>(device), uuid, &found);
    *info = found;
    return Error::none;
  }

  bool has_context(int device) override {
    if (!in_use() || check_device(device) != Error::none) return false;
    const bool active = is_active(device);
    compare_context(device, active ? context_id(device) : 0);
    return active;
  }

  uint32_t context_number(int device) const override { return contexts_.number(device); }

  Error run_on(int device, const std::function<void()>& work) override {
    return on(device, [&] {
      work();
      return Error::none;
    });
  }

  Error synchronize(int device) override {
    if (Error error = check_device(device); error != Error::none) return error;
    if (!has_context(device)) return Error::none;  // without a context there is no work to wait for
    return on(device, [&] { return call(api_.device_synchronize); });
  }

  Error can_access_peer(int device, int peer, bool* possible) override {
    for (int one : {device, peer}) {
      if (Error error = check_device(one); error != Error::none) return error;
    }
    int answer = 1;
    Error error = Error::none;
    if (device != peer) error = call(api_.can_access_peer, &answer, devices_[device], devices_[peer]);
    if (error == Error::none) *possible = answer != 0;
    return error;
  }

  bool has_peer_atomics(int device, const DeviceInfo& peer) override {
    int count = 0, possible = 0;
    if (check_device(device) != Error::none || device_count(&count) != Error::none) return false;
    for (int one = 0; one < count; ++one) {
      DeviceInfo info{};
      if (device_info(one, &info) != Error::none || std::memcmp(info.uuid, peer.uuid, sizeof info.uuid) != 0)
        continue;
      return one == device || (check_device(one) == Error::none && api_.peer_attribute &&
                               call(api_.peer_attribute, &possible, int{Abi::peer_atomics}, devices_[device],
                                    devices_[one]) == Error::none &&
                               possible);
    }
    return has_atomics_with_hidden(device, peer);
  }

  Error enable_peer(int device, int peer) override {
    for (int one : {device, peer}) {
      if (Error error = check_device(one); error != Error::none) return error;
    }
    if (device == peer) return Error::none;
    return on(device, [&] { return enable_peer_of_current(peer); });
  }

  // ---- Memory --------------------------------------------------------------------------------------
  Error query(const void* address, Allocation* allocation) override {
    Allocation found;
    if (address && in_use()) {
      if (Error error = query_driver(address, &found); error != Error::none) return error;
      if (found.kind == MemoryKind::device) look_at_context(&found);
    }
    *allocation = found;
    return Error::none;
  }

  bool writes_whole_words() const override { return true; }

  Error allocate(int device, size_t bytes, void** address) override {
    return make_on(device, [&] {
      typename Abi::Address made{};
      Error error = call(api_.allocate, &made, bytes);
      if (error == Error::none) *address = from_driver(made);
      return error;
    });
  }

  Error allocate_managed(int device, size_t bytes, void** address) override {
    return on(device, [&] {
      typename Abi::Address made{};
      Error error = call(api_.allocate_managed, &made, bytes, driver_flag::managed_attach_global);
      if (error == Error::none) *address = from_driver(made);
      return error;
    });
  }

  Error allocate_from_pool(int device, size_t bytes, void** address) override {
    if (!api_.allocate_async) return refuse(Error::not_supported, api_.allocate_async.symbol);
    return on(device, [&] {
      typename Abi::Address made{};
      typename Abi::Stream default_stream{};
      Error error = call(api_.allocate_async, &made, bytes, default_stream);
      if (error == Error::none) error = call(api_.stream_synchronize, default_stream);
      if (error == Error::none) *address = from_driver(made);
      return error;
    });
  }

  Error allocate_virtual_in(int location, int device, size_t bytes, void** address) override {
    const MemoryLocation where = location < 0 ? MemoryLocation{driver_flag::location_host_numa, 0}
                                              : MemoryLocation{driver_flag::location_device, location};
    constexpr int file = driver_flag::handle_file_descriptor, wanted = file | Abi::handle_for_other_nodes;
    return on(device, [&] {
      const Error error = outcome(virtual_.allocate(where, wanted, device, bytes, address));
      if (error == Error::none || wanted == file) return error;
      return outcome(virtual_.allocate(where, file, device, bytes, address));
    });
  }

  Error free(void* address) override {
    if (!address) return Error::none;
    return on(owner(address), [&] {
      if (virtual_.owns(address)) return outcome(virtual_.free(address));
      return call(api_.free, to_driver(address));
    });
  }

  Error allocate_pinned(size_t bytes, void** address, int* device) override {
    return make_on_any(device, [&] {
      void* made = nullptr;
      Error error = call(api_.allocate_pinned, &made, bytes, unsigned{Abi::pinned_flags});
      if (error == Error::none) *address = made;
      return error;
    });
  }

  Error free_pinned(void* address) override {
    if (!address) return Error::none;
    return on(owner(address), [&] { return call(api_.free_pinned, address); });
  }

  Error register_host(void* address, size_t bytes, int* device) override {
    return make_on_any(device, [&] {
      int result = api_.register_host(address, bytes, driver_flag::register_portable);
      if (result == driver_result::host_memory_already_registered) return forgive();
      return outcome(api_.register_host.symbol, result);
    });
  }

  Error unregister_host(void* address) override {
    return on(owner(address), [&] { return call(api_.unregister_host, address); });
  }

  Error memory_info(int device, size_t* free_bytes, size_t* total_bytes) override {
    return on(device, [&] {
      size_t free = 0, total = 0;
      Error error = call(api_.memory_info, &free, &total);
      if (error == Error::none) std::tie(*free_bytes, *total_bytes) = std::tie(free, total);
      return error;
    });
  }

  Error set_sync_memops(const void* address) override {
    if (!api_.set_pointer_attribute) return refuse(Error::not_supported, api_.set_pointer_attribute.symbol);
    return on(owner(address), [&] {
      const unsigned yes = 1;
      const Error error = call(api_.set_pointer_attribute, static_cast<const void*>(&yes),
                               int{driver_flag::pointer_sync_memops}, to_driver(address));
      return error == Error::none ? Error::not_ready : error;
    });
  }

  Error copy_as_program(void* to, const void* from, size_t bytes) override {
    int device = 0;
    Error error = current_device(&device);
    return error != Error::none ? error : on(device, [&] { return copy_now_on(to, from, bytes); });
  }

  void* cpu_mapping(const void*, size_t) override { return nullptr; }
  bool kernels_reach_host(int device) override { return has(Abi::device_reaches_host, device); }

  // ---- Streams, copies, events ---------------------------------------------------------------------
  Error create_stream(int device, Stream* stream, StreamKind kind) override {
    return make_on(device, [&] {
      auto record = std::make_unique<StreamRecord>();
      record->made = made_on(device);
      unsigned flags = kind == StreamKind::application ? 0 : driver_flag::stream_non_blocking;
      const bool first =
          kind == StreamKind::urgent || (kind == StreamKind::library && Abi::streams_share_queues);
      int least = 0, greatest = 0;
      Error error = first ? call(api_.stream_priorities, &least, &greatest) : Error::none;
      record->priority = greatest;
      if (error == Error::none) error = call(api_.stream_create, &record->handle, flags, greatest);
      if (error == Error::out_of_memory) {
        record->handle = {};
        error = Error::none;
      }
      if (error == Error::none) *stream = reinterpret_cast<Stream>(record.release());
      return error;
    });
  }

  Error destroy_stream(Stream stream) override {
    std::unique_ptr<StreamRecord> record(record_of(stream));
    return end(record->made, [&] {
      release(&record->launcher);
      return record->adopted || record->handle == typename Abi::Stream{}
                 ? Error::none
                 : call(api_.stream_destroy, record->handle);
    });
  }

  void* native(Stream stream) const override { return record_of(stream)->handle; }

  Error synchronize_stream(Stream stream) override {
    return with(stream, [&](StreamRecord& record) { return call(api_.stream_synchronize, record.handle); });
  }

  Error query_stream(Stream stream) override {
    return with(stream, [&](StreamRecord& record) { return call(api_.stream_query, record.handle); });
  }

  Error copy(void* to, const void* from, size_t bytes, Stream stream) override {
    if (bytes == 0) return Error::none;
    return with(stream, [&](StreamRecord& record) { return copy_on(to, from, bytes, record.handle); });
  }

  Error copy_batch(const CopyItem* items, size_t count, Stream stream) override {
    return with(stream, [&](StreamRecord& record) { return copy_batch_on(items, count, record.handle); });
  }

  Error copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                Stream stream) override {
    if (width == 0 || height == 0) return Error::none;
    return with(stream, [&](StreamRecord& record) {
      return copy_2d_on(to, to_pitch, from, from_pitch, width, height, record.handle);
    });
  }

  Error fill(void* to, int byte, size_t bytes, Stream stream) override {
    if (bytes == 0) return Error::none;
    return with(stream, [&](StreamRecord& record) {
      return call(api_.fill, to_driver(to), static_cast<unsigned char>(byte), bytes, record.handle);
    });
  }

  Error create_event(int device, Event* event) override {
    return make_on(device, [&] {
      auto record = std::make_unique<EventRecord>();
      record->made = made_on(device);
      Error error = call(api_.event_create, &record->handle, driver_flag::event_disable_timing);
      if (error == Error::none) *event = reinterpret_cast<Event>(record.release());
      return error;
    });
  }

  Error destroy_event(Event event) override {
    std::unique_ptr<EventRecord> record(record_of(event));
    return end(record->made, [&] { return call(api_.event_destroy, record->handle); });
  }

  Error record_event(Event event, Stream stream) override {
    if (is_gone(record_of(event)->made)) return refuse_gone();
    return with(stream, [&](StreamRecord& record) {
      return call(api_.event_record, record_of(event)->handle, record.handle);
    });
  }

  Error query_event(Event event) override {
    auto* record = record_of(event);
    if (is_gone(record->made)) return refuse_gone();
    return on(record->made.device, [&] { return call(api_.event_query, record->handle); });
  }

  Error wait_event(Stream stream, Event event) override {
    if (is_gone(record_of(event)->made)) return refuse_gone();
    return with(stream, [&](StreamRecord& record) {
      return call(api_.stream_wait_event, record.handle, record_of(event)->handle, 0u);
    });
  }

 protected:
  static constexpr int max_devices = 64;

  // The state that leave() must restore.
  struct Entered {
    bool changed = false;
    int previous = -1;
  };

  explicit DriverRuntime(const Abi& api) : api_(api), virtual_(api_) {}

  static bool fits(const Allocation& memory, const void* address, size_t bytes) {
    const size_t offset = reinterpret_cast<uintptr_t>(address) - memory.base;
    return offset <= memory.size && bytes <= memory.size - offset;
  }

  bool has(int attribute, int device) {
    int value = 0;
    return check_device(device) == Error::none &&
           call(api_.device_attribute, &value, int{attribute}, handle_of(device)) == Error::none && value;
  }

  // Where something was made, and in which context.
  struct Made {
    int device = 0;
    uint32_t context = 0;
  };
  struct StreamRecord {
    typename Abi::Stream handle{};
    Made made;
    int priority = 0;
    bool adopted = false;
    typename Abi::Launcher launcher{};
  };
  static StreamRecord* record_of(Stream stream) { return reinterpret_cast<StreamRecord*>(stream); }

  // Is the device's context there? Called only for devices that exist.
  virtual bool is_active(int device) = 0;
  virtual bool numbers_contexts() const { return false; }
  // The driver's number of the device's context, to be called only while it has one. If drivers have no such
  // numbers, the id of an allocation of one byte: after a reset its address is that of another allocation, or
  // of none.
  virtual uint64_t context_id(int device) {
    unsigned long long id = 0;  // HIP writes 32 or 64 bits of it
    if (api_.pointer_attribute(static_cast<void*>(&id), int{driver_flag::pointer_buffer_id},
                               to_driver(canaries_[device])) == driver_result::success)
      return id;
    forget_result();
    return 0;
  }
  virtual void forget_context(int) {}
  // enter() makes an existing device current for this thread; leave() restores the previous one.
  virtual Error enter(int device, Entered* entered) = 0;
  virtual void leave(const Entered& entered) = 0;
  // Called only while the driver is in use. Leaves `found` unchanged for memory unknown to the driver.
  virtual Error query_driver(const void* address, Allocation* found) = 0;
  // The functions below run while the right device is current.
  virtual Error enable_peer_of_current(int peer) = 0;

  virtual bool has_atomics_with_hidden(int, const DeviceInfo&) { return false; }
  virtual Error copy_on(void* to, const void* from, size_t bytes, typename Abi::Stream stream) = 0;
  virtual Error copy_now_on(void* to, const void* from, size_t bytes) = 0;
  virtual Error copy_batch_on(const CopyItem* items, size_t count, typename Abi::Stream stream) {
    Error error = Error::none;
    for (size_t i = 0; i < count && error == Error::none; ++i)
      error = copy_on(items[i].to, items[i].from, items[i].bytes, stream);
    return error;
  }
  virtual Error copy_2d_on(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                           size_t height, typename Abi::Stream stream) = 0;
  virtual Error launch_on(typename Abi::Function function, unsigned grid, unsigned block, void** arguments,
                          StreamRecord& stream) {
    return call(api_.launch, function, grid, 1u, 1u, block, 1u, 1u, 0u, stream.handle, arguments,
                static_cast<void**>(nullptr));
  }
  virtual void release(typename Abi::Launcher*) {}
  // Ranks this image for the device. The highest rank is the best fit; 0: the driver cannot load the image.
  virtual int image_rank(int device, const CodeImage& image) {
    return gpu_image_rank(image.target, architecture(device));
  }
  // Returns the driver's name and text for a result.
  virtual void describe(int result, const char** name, const char** text) = 0;
  // Called after each result other than success; a provider may clear the driver's error state here.
  virtual void forget_result() {}

  template <class Result, class... Parameters, class... Arguments>
  Error call(const DriverFunction<Result(Parameters...)>& function, Arguments... arguments) {
    Result result = function(arguments...);
    return result == driver_result::success ? Error::none : outcome(function.symbol, result);
  }

  Error outcome(const DriverOutcome& last) { return outcome(last.symbol, last.result); }

  Error outcome(const char* symbol, int result) {
    if (result == driver_result::success) return Error::none;
    if (result != driver_result::not_ready) {
      const char* name = nullptr;
      const char* text = nullptr;
      describe(result, &name, &text);
      std::snprintf(driver_error_text, sizeof driver_error_text, "%.*s: %s (%s)", plain_length(symbol),
                    symbol, name ? name : std::to_string(result).c_str(), text ? text : "no text");
    }
    forget_result();
    return driver_error(result);
  }

  // Clears the error of a result that means that the state already was as requested.
  Error forgive() {
    forget_result();
    return Error::none;
  }

  Error refuse(Error error, const char* what) {
    std::snprintf(driver_error_text, sizeof driver_error_text, "%s: %s", what, to_string(error));
    return error;
  }

  Error check_device(int device) {
    if (Error error = initialize(); error != Error::none) return error;
    if (device >= 0 && device < count_) return Error::none;
    std::snprintf(driver_error_text, sizeof driver_error_text, "no device %d: this process sees %d", device,
                  count_);
    return Error::invalid_value;
  }

  // Runs `work` while `device` is current. If it fails, the context may have ended.
  template <class Work>
  Error on(int device, Work work) {
    Entered entered;
    Error error = check_device(device);
    if (error != Error::none) return error;
    error = enter(device, &entered);
    if (error == Error::none) error = work();
    if (entered.changed) leave(entered);
    if (error > Error::not_ready) (void)has_context(device);
    return error;
  }

  // The same for work that makes something there.
  template <class Work>
  Error make_on(int device, Work work) {
    return on(device, [&] {
      if (contexts_.is_known(device))
        compare_context(device, context_id(device));
      else
        learn_context(device);
      return work();
    });
  }
  template <class Work>
  Error make_on_any(int* device, Work work) {
    const int chosen = device && *device >= 0 ? *device : some_device();
    if (device) *device = chosen;
    return make_on(chosen, work);
  }

  Made made_on(int device) const { return {device, contexts_.number(device)}; }
  bool is_gone(const Made& made) const { return made.context != contexts_.number(made.device); }
  Error refuse_gone() { return refuse(Error::failed, "the program has reset the device since"); }

  // Runs `work` with the record of the stream, on its device.
  template <class Work>
  Error with(Stream stream, Work work) {
    StreamRecord* record = record_of(stream);
    if (is_gone(record->made)) return refuse_gone();
    return on(record->made.device, [&] { return work(*record); });
  }

  // Runs work that destroys what is still there.
  template <class Work>
  Error end(const Made& made, Work work) {
    if (!has_context(made.device) || is_gone(made)) return Error::none;
    return on(made.device, work);
  }

  // Returns the device that owns an address, or any usable device for memory that belongs to no device.
  int owner(const void* address) {
    Allocation allocation;
    if (query(address, &allocation) == Error::none && allocation.device >= 0 && allocation.device < count_) {
      return allocation.device;
    }
    return some_device();
  }

  static typename Abi::Address to_driver(const void* address) { return Abi::to_driver(address); }
  static void* from_driver(typename Abi::Address address) { return (void*)(address); }

  typename Abi::Device handle_of(int device) const { return devices_[device]; }
  struct EventRecord {
    typename Abi::Event handle{};
    Made made;
  };
  static EventRecord* record_of(Event event) { return reinterpret_cast<EventRecord*>(event); }

  Abi api_;
  VirtualMemory<Abi> virtual_;

 private:
  // Returns the length of a symbol without its version suffix: users know cuMemAlloc, not cuMemAlloc_v2.
  static int plain_length(const char* symbol) {
    const char* version = std::strstr(symbol, "_v");
    return static_cast<int>(version ? version - symbol : std::strlen(symbol));
  }

  // Returns a device that already has a context if there is one, preferably this thread's current device.
  int some_device() {
    int current = 0;
    if (initialize() != Error::none) return 0;
    if (current_device(&current) == Error::none && has_context(current)) return current;
    for (int device = 0; device < count_; ++device) {
      if (has_context(device)) return device;
    }
    return current;
  }

  void compare_context(int device, uint64_t present) {
    contexts_.compare(device, present, [&] { forget_context(device); });
  }

  // The context of memory that exists. Makes ids differ where a driver starts again with them.
  void look_at_context(Allocation* found) {
    const int device = found->device;
    if (contexts_.is_known(device) &&
        (numbers_contexts() || !found->ordinary || contexts_.is_newest(device, found->id)))
      compare_context(device, context_id(device));
    found->id += uint64_t{contexts_.number(device)} << context_bit;
  }

  // Called while the device is current.
  void learn_context(int device) {
    std::lock_guard lock(mutex_);
    if (!numbers_contexts()) {
      typename Abi::Address made{};
      canaries_[device] = nullptr;
      if (call(api_.allocate, &made, size_t{1}) != Error::none) return;
      canaries_[device] = from_driver(made);
    }
    contexts_.begin(device, context_id(device));
  }

  std::mutex mutex_;  // guards initialisation
  std::atomic<bool> initialized_ = false;
  int count_ = 0;
  std::array<typename Abi::Device, max_devices> devices_{};
  Contexts<max_devices> contexts_;
  std::array<void*, max_devices> canaries_{};
};

}  // namespace fairlead::device
