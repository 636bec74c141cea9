// SPDX-License-Identifier: Apache-2.0

#include "base/host_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <vector>

namespace fairlead {
namespace {

constexpr int smallest_class = 12;              // a page
constexpr size_t kept_bytes = size_t{1} << 20;  // pages beyond this are given back on release
constexpr size_t kept_warm = 64;        // of a class; of further ones only the first page
constexpr size_t kept_per_class = 1024;

std::mutex mutex;
auto& idle = *new std::array<std::vector<unsigned char*>, 64>;

}  // namespace

HostBuffer::HostBuffer(size_t bytes, size_t reserve) : bytes_(bytes) {
  size_t room = std::max({bytes, reserve, size_t{1}});
  size_class_ = std::max(smallest_class, static_cast<int>(std::bit_width(room - 1)));
  {
    std::lock_guard lock(mutex);
    auto& list = idle[size_class_];
    if (!list.empty()) {
      data_ = list.back();
      list.pop_back();
      return;
    }
  }
  void* fresh = mmap(nullptr, size_t{1} << size_class_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh != MAP_FAILED) data_ = static_cast<unsigned char*>(fresh);
}

HostBuffer::~HostBuffer() {
  if (!data_) return;
  size_t bytes = size_t{1} << size_class_;
  std::lock_guard lock(mutex);
  auto& list = idle[size_class_];
  size_t kept = list.size() < kept_warm ? kept_bytes : size_t{1} << smallest_class;
  if (bytes_ > kept && list.size() < kept_per_class) madvise(data_ + kept, bytes - kept, MADV_DONTNEED);
  if (list.size() < kept_per_class)
    list.push_back(data_);
  else
    munmap(data_, bytes);
}

}  // namespace fairlead
