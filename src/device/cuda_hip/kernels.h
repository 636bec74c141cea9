// SPDX-License-Identifier: Apache-2.0
//
// Kernels of drivers with a CUDA-like API: modules of device code, loaded once for each context, and their
// functions. Adds these to DriverRuntime.

#pragma once

#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "device/cuda_hip/ipc.h"

namespace fairlead::device {

template <class Abi>
class KernelRuntime : public IpcRuntime<Abi> {
  using Base = IpcRuntime<Abi>;

 public:
  Error find_kernel(int device, const CodeImage* images, size_t count, const char* name,
                    Kernel* kernel) override {
    return this->make_on(device, [&] {
      std::lock_guard lock(mutex_);
      const Code code{device, this->context_number(device), images};
      KernelRecord& record = kernels_[{code, name}];
      if (!record.function) {
        typename Abi::Module module{};
        Error error = load(code, count, &module);
        if (error == Error::none)
          error = this->call(this->api_.module_function, &record.function, module, name);
        if (error != Error::none) return error;
        record.made = this->made_on(device);
      }
      *kernel = reinterpret_cast<Kernel>(&record);
      return Error::none;
    });
  }

  Error launch(Kernel kernel, unsigned grid, unsigned block, void** arguments, Stream stream) override {
    auto* record = reinterpret_cast<KernelRecord*>(kernel);
    if (this->is_gone(record->made)) return this->refuse_gone();
    return this->with(stream, [&](typename Base::StreamRecord& its) {
      return this->launch_on(record->function, grid, block, arguments, its);
    });
  }

 protected:
  using Base::Base;

 private:
  using Code = std::tuple<int, uint32_t, const CodeImage*>;  // device, number of its context, images
  struct KernelRecord {
    typename Abi::Function function{};
    typename Base::Made made;
  };

  // The caller holds the mutex.
  Error load(const Code& code, size_t count, typename Abi::Module* module) {
    if (auto known = modules_.find(code); known != modules_.end()) {
      *module = known->second;
      return Error::none;
    }
    const auto [device, context, images] = code;
    std::multimap<int, const CodeImage*, std::greater<>> ranked;
    for (const CodeImage* image = images; image != images + count; ++image) {
      if (int rank = this->image_rank(device, *image); rank > 0) ranked.emplace(rank, image);
    }
    if (ranked.empty()) return this->refuse(Error::not_found, "no device code for this GPU in this build");
    Error error = Error::none;
    for (auto [rank, image] : ranked) {
      error = this->call(this->api_.module_load, module, static_cast<const void*>(image->bytes));
      if (error == Error::none) {
        modules_[code] = *module;
        return Error::none;
      }
      // For example, the driver is older than the compiler of this machine code.
      log_line(LogLevel::debug, "device %d does not load the code for %s: %s", device, image->target,
               this->error_text());
    }
    return error;
  }

  std::mutex mutex_;
  std::map<Code, typename Abi::Module> modules_;
  std::map<std::pair<Code, std::string>, KernelRecord> kernels_;  // addresses are stable
};

}  // namespace fairlead::device
