// SPDX-License-Identifier: Apache-2.0
//
// Who else has access to memory, for drivers with a CUDA-like API: other devices, and other processes by
// handles, or by file descriptors of virtual memory. Adds these to DriverRuntime.

#pragma once

#include <cstring>
#include <tuple>

#include "device/cuda_hip/runtime.h"

namespace fairlead::device {

template <class Abi>
class IpcRuntime : public DriverRuntime<Abi> {
  using Base = DriverRuntime<Abi>;

 public:
  Error ipc_export(const void* base, IpcHandle* handle, int* file) override {
    return this->make_on(this->owner(base), [&] {
      typename Abi::IpcMemory memory{};
      static_assert(sizeof memory == sizeof *handle && sizeof(size_t) <= sizeof memory);
      *file = -1;
      const Sharing sharing = sharing_of(base);
      if (sharing == Sharing::none)
        return this->refuse(Error::not_supported, "this driver shares no such memory");
      Error error = Error::not_supported;
      if (sharing != Sharing::by_file) error = this->call(this->api_.ipc_get, &memory, Base::to_driver(base));
      if (error != Error::none && sharing != Sharing::by_handle && this->api_.memory_retain) {
        typename Abi::Address start{};
        size_t size = 0;
        error = this->call(this->api_.address_range, &start, &size, Base::to_driver(base));
        if (error == Error::none) error = this->outcome(this->virtual_.share(base, file));
        std::memcpy(&memory, &size, sizeof size);
      }
      if (error == Error::none) std::memcpy(handle, &memory, sizeof memory);
      return error;
    });
  }

  Error ipc_import(int device, const IpcHandle& handle, int file, void** base) override {
    return this->make_on(device, [&] {
      typename Abi::IpcMemory memory;
      std::memcpy(&memory, &handle, sizeof memory);
      if (file >= 0) {
        size_t size = 0;
        std::memcpy(&size, &memory, sizeof size);
        return this->outcome(this->virtual_.map_received(device, driver_flag::handle_file_descriptor,
                                                         file_argument(&file), size, base));
      }
      typename Abi::Address mapped{};
      Error error = open_ipc(memory, &mapped);
      if (error == Error::none) *base = Base::from_driver(mapped);
      return error;
    });
  }

  Error ipc_close(int device, void* base) override {
    return this->on(device, [&] {
      if (this->virtual_.owns(base)) return this->outcome(this->virtual_.free(base));
      return this->call(this->api_.ipc_close, Base::to_driver(base));
    });
  }

 protected:
  using Base::Base;

  // Negative if this is no virtual memory.
  int access_flags(const void* address, const MemoryLocation& location) {
    unsigned long long flags = 0;
    if (!this->api_.memory_get_access) return -1;
    if (this->api_.memory_get_access(&flags, &location, Base::to_driver(address)) == driver_result::success)
      return static_cast<int>(flags);
    this->forget_result();
    return -1;
  }

  // The device that works on this memory: that of `home`, where it lies, but if it is virtual memory to which
  // another one has more access, that one, the current one before others.
  int worker_of(const void* address, int home) {
    auto access_of = [&](int device) {
      return access_flags(address, {driver_flag::location_device, device});
    };
    int most = home < 0 ? driver_flag::access_none : access_of(home);
    if (most < 0 || most == driver_flag::access_read_write) return home;
    int current = home, count = 0, worker = home;
    auto consider = [&](int device) {
      if (const int access = access_of(device); access > most)
        std::tie(worker, most) = std::tuple(device, access);
    };
    if (this->current_device(&current) == Error::none) consider(current);
    (void)this->device_count(&count);
    for (int device = 0; device < count; ++device) consider(device);
    return worker;
  }

  // How other processes can map the memory that starts here. `either`: the driver refuses what it cannot
  // share, so the export requests a handle first.
  enum class Sharing : uint8_t { by_handle, by_file, either, none };
  virtual Sharing sharing_of(const void*) { return Sharing::either; }
  virtual Error open_ipc(const typename Abi::IpcMemory& memory, typename Abi::Address* mapped) = 0;
  // Returns the argument by which memory_import expects a file descriptor.
  virtual void* file_argument(int* file) { return reinterpret_cast<void*>(static_cast<intptr_t>(*file)); }
};

}  // namespace fairlead::device
