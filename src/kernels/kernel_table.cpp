// SPDX-License-Identifier: Apache-2.0

#include "kernels/kernel_table.h"

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "base/sparingly.h"
#include "kernels/reduce.h"

namespace fairlead::kernels {
namespace {

using device::Error;
using device::Kernel;

class KernelTable {
 public:
  Error find(int device, Images images, int number, std::string (*name)(int), Kernel* kernel) {
    std::lock_guard lock(mutex_);
    Key key{device, images, number};
    auto [entry, added] = kernels_.try_emplace(key, nullptr);
    if (!entry->second && missed_.contains(key) && !look_again_.due()) return Error::not_ready;
    Error error = entry->second ? Error::none : load(key, name(number), &entry->second);
    if (error == Error::not_ready) {
      if (missed_.try_emplace(key, name(number)).second)
        log_line(LogLevel::info, "device %d is busy: %s is loaded when it is not", device,
                 name(number).c_str());
      any_missed_ = true;
    }
    *kernel = entry->second;
    return error;
  }

  void load_missed() {
    if (!any_missed_.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(mutex_);
    if (!look_again_.due()) return;
    std::erase_if(missed_, [&](const auto& missed) {
      const auto& [key, name] = missed;
      return load(key, name, &kernels_[key]) != Error::not_ready;
    });
    any_missed_ = !missed_.empty();
  }

 private:
  using Key = std::tuple<int, Images, int>;  // the device, and which kernel of which module

  Error load(const Key& key, const std::string& name, Kernel* kernel) {
    auto [device, images, number] = key;
    if (Error error = device::runtime()->query_device(device); error != Error::none) return error;
    const std::vector<device::CodeImage>& code = code_of(images);
    return device::runtime()->find_kernel(device, code.data(), code.size(), name.c_str(), kernel);
  }

  // A runtime knows what it has loaded by the address of the images.
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
  std::map<Images, std::vector<device::CodeImage>> code_;
  std::map<Key, Kernel> kernels_;
  std::map<Key, std::string> missed_;  // with their names
  std::atomic<bool> any_missed_ = false;
  Sparingly look_again_;
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

}  // namespace fairlead::kernels
