// SPDX-License-Identifier: Apache-2.0

#include "kernels/kernel_table.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/rate_limit.h"
#include "device/blocking_driver_calls.h"
#include "device/context.h"
#include "device/cuda_hip/gpu_targets.h"
#include "kernels/reduce.h"

namespace fairlead::kernels {
namespace {

using device::Error;
using device::Kernel;

class KernelTable {
 public:
  Error find(int device, Images images, int number, std::string (*name)(int), Kernel* kernel) {
    const Key key{device, images, number};
    Known known = known_of(key);
    if (known.outcome == Error::not_ready) {
      std::lock_guard lock(loading_);
      known = known_of(key);  // another thread may have loaded it meanwhile
      if (known.outcome == Error::not_ready && (!missed_.contains(key) || look_again_.due())) {
        known = load(key, name(number));
        if (known.outcome != Error::not_ready)
          missed_.erase(key);
        else if (missed_.try_emplace(key, name(number)).second)
          log_line(LogLevel::info, "device %d is busy or full: %s is loaded when it is not", device,
                   name(number).c_str());
        any_missed_ = !missed_.empty();
      }
    }
    *kernel = known.kernel;
    return known.outcome;
  }

  bool any_missed() const { return any_missed_.load(std::memory_order_relaxed); }

  void load_missed() {
    if (!any_missed()) return;
    std::lock_guard lock(loading_);
    if (!look_again_.due()) return;
    std::erase_if(missed_, [&](const auto& missed) {
      const auto& [key, name] = missed;
      return load(key, name).outcome != Error::not_ready;
    });
    any_missed_ = !missed_.empty();
  }

 private:
  using Key = std::tuple<int, Images, int>;  // device, module, and number of the kernel in the module
  struct Known {
    Kernel kernel = nullptr;
    Error outcome = Error::not_ready;  // result of loading the kernel, once the device was idle
    device::Context context;
    int failures = 0;  // failures of the driver for unknown reasons
  };
  // Attempts are a millisecond apart: reasons that pass are over by then.
  static constexpr int most_failures = 10000;

  Known known_of(const Key& key) {
    std::lock_guard lock(mutex_);
    Known& known = kernels_[key];
    if (known.context.is_gone()) known = {};
    return known;
  }

  Known load(const Key& key, const std::string& name) {
    const Known known = try_to_load(key, name);
    std::lock_guard lock(mutex_);
    return kernels_[key] = known;
  }

  // not_ready: the device is busy or full, or the driver may not be asked. A kernel without code is not tried
  // again.
  Known try_to_load(const Key& key, const std::string& name) {
    auto [device, images, number] = key;
    Known known, later;
    later.failures = known_of(key).failures;
    const device::BlockingDriverCalls calls;
    if (!calls) return later;
    known.context = device::Context(device);
    known.outcome = device::runtime()->query_loading(device);
    if (known.outcome != Error::none) return later;
    const std::vector<device::CodeImage>& code = code_of(images);
    known.outcome = calls->find_kernel(device, code.data(), code.size(), name.c_str(), &known.kernel);
    if (known.outcome == Error::none) return known;
    log_line(LogLevel::info, "device %d cannot load kernel %s: %s", device, name.c_str(),
             device::to_string(known.outcome));
    bool never = known.outcome == Error::not_found || known.outcome == Error::not_supported;
    if (known.outcome == Error::failed) never = ++later.failures == most_failures;
    if (!never) return later;
    if (std::exchange(told_[device], true) == false) tell_of_missing_code(device, code);
    return known;
  }

  // Warns once for each GPU, by name: everything works without kernels on it, but much more slowly.
  static void tell_of_missing_code(int device, const std::vector<device::CodeImage>& code) {
    std::string remedy = device::runtime()->error_text(), targets;
    const std::string target = device::runtime()->architecture(device);
    const bool nvidia = target.starts_with("sm_"),
               simulated = device::runtime()->name() == std::string_view("sim");
    int best_fit = 0;
    for (const device::CodeImage& image : code) {
      const std::string_view made_for = image.target;
      if (made_for == "cpu" ? !simulated : !target.empty() && made_for.starts_with("gfx") == nvidia) continue;
      targets += " " + std::string(made_for);
      best_fit = std::max(best_fit, device::gpu_image_rank(made_for, target));
    }
    if (targets.empty())
      remedy =
          "this build has no device code for it: install clang and lld, 19 or newer, and build with "
          "-DFAIRLEAD_DEVICE_TARGETS=all";
    else if (!target.empty() && best_fit == 0)
      remedy = "this build has code for" + targets +
               ": build with -DFAIRLEAD_DEVICE_TARGETS=all and a newer clang, 19 or ROCm's own";
    else if (!target.empty() && best_fit == 1 && !nvidia)
      remedy += "; code for several GPUs needs ROCm 6.4 or newer";
    device::DeviceInfo info{};
    (void)device::runtime()->device_info(device, &info);
    log_line(LogLevel::warn,
             "GPU %d, %s%s%s, runs no kernels of Fairlead: reductions and layouts with gaps go through host "
             "memory (%s)",
             device, info.name, target.empty() ? "" : ", ", target.c_str(), remedy.c_str());
  }

  // A runtime identifies what it has loaded by the address of the images.
  const std::vector<device::CodeImage>& code_of(Images images) {
    auto [entry, added] = code_.try_emplace(images);
    if (added) {
      auto [first, count] = images();
      for (const auto* image = first; image != first + count; ++image)
        entry->second.push_back({image->target, image->bytes, image->size});
    }
    return entry->second;
  }

  std::mutex mutex_;
  std::map<Key, Known> kernels_;  // mutex_ guards it
  // Held while a kernel is loaded, so that those that are known need not wait for it. Guards what follows.
  std::mutex loading_;
  std::map<Images, std::vector<device::CodeImage>> code_;
  std::map<int, bool> told_;           // devices without code that were reported
  std::map<Key, std::string> missed_;  // kernels to load later, with their names
  std::atomic<bool> any_missed_ = false;
  RateLimit look_again_;
};

KernelTable& kernel_table() {
  static auto* table = new KernelTable;  // threads may outlive static objects
  return *table;
}

}  // namespace

Error find_kernel(int device, Images images, int number, std::string (*name)(int), Kernel* kernel) {
  if (!device::runtime()) return Error::not_initialized;
  return kernel_table().find(device, images, number, name, kernel);
}

void load_missed_code() {
  kernel_table().load_missed();
}

bool has_missed_code() {
  return kernel_table().any_missed();
}

}  // namespace fairlead::kernels
