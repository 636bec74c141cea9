// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_buffer.h"

#include <map>
#include <mutex>
#include <vector>

#include "base/options.h"
#include "device/runtime.h"

namespace fairlead::device {
namespace {

std::mutex mutex;
auto& idle = *new std::map<size_t, std::vector<unsigned char*>>;
size_t total = 0;  // in use and idle

}  // namespace

// Takes an idle buffer of sufficient size if there is one. It frees none to make room: that would wait for
// all work on the devices, including the program's kernels.
PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  std::lock_guard lock(mutex);
  for (auto fitting = idle.lower_bound(bytes); fitting != idle.end(); ++fitting) {
    auto& [size, list] = *fitting;
    if (list.empty()) continue;
    bytes_ = size;
    pinned_ = list.back();
    list.pop_back();
    return;
  }
  void* fresh = nullptr;
  if (total + bytes <= options().network_memory && runtime() && runtime()->in_use() &&
      runtime()->allocate_pinned(bytes, &fresh) == Error::none) {
    pinned_ = static_cast<unsigned char*>(fresh);
    total += bytes;
  } else {
    ordinary_ = HostBuffer(bytes);
  }
}

PinnedBuffer::~PinnedBuffer() {
  if (!pinned_) return;
  std::lock_guard lock(mutex);
  idle[bytes_].push_back(pinned_);
}

void release_pinned() {
  std::lock_guard lock(mutex);
  for (auto& [bytes, list] : idle) {
    for (unsigned char* address : list) runtime()->free_pinned(address);
    total -= bytes * list.size();
  }
  idle.clear();
}

}  // namespace fairlead::device
