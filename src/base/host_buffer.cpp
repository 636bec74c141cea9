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

// Fresh pages cost more than a copy, so released buffers keep theirs up to a limit.
constexpr size_t kept_in_all = size_t{256} << 20;
constexpr size_t kept_at_least = size_t{1} << 20;  // of each buffer, beyond that limit
constexpr int smallest_class = 12;                 // a page
constexpr int largest_class = 36;
constexpr size_t kept_warm = 64;  // of a class; of further ones only the first page
constexpr size_t kept_per_class = 1024;

struct Idle {
  unsigned char* data;
  size_t touched;
};

std::mutex mutex;
auto& idle = *new std::array<std::vector<Idle>, largest_class + 1>;
size_t touched_in_all = 0;  // of idle buffers

}  // namespace

HostBuffer::HostBuffer(size_t bytes, size_t reserve) : bytes_(bytes) {
  room_ = std::max({bytes, reserve, size_t{1}});
  size_class_ = std::max(smallest_class, static_cast<int>(std::bit_width(room_ - 1)));
  if (size_class_ <= largest_class) {
    room_ = size_t{1} << size_class_;
    std::lock_guard lock(mutex);
    auto& list = idle[size_class_];
    if (!list.empty()) {
      data_ = list.back().data;
      touched_before_ = list.back().touched;
      touched_in_all -= touched_before_;
      list.pop_back();
      return;
    }
  }
  void* fresh =
      mmap(nullptr, room_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh != MAP_FAILED) data_ = static_cast<unsigned char*>(fresh);
}

HostBuffer::~HostBuffer() {
  if (!data_) return;
  if (size_class_ > largest_class) {
    munmap(data_, room_);
    return;
  }
  size_t touched = std::max(bytes_, touched_before_);
  std::lock_guard lock(mutex);
  auto& list = idle[size_class_];
  if (list.size() >= kept_per_class) {
    munmap(data_, room_);
    return;
  }
  size_t kept = list.size() >= kept_warm                  ? size_t{1} << smallest_class
                : touched_in_all + touched <= kept_in_all ? room_
                                                          : kept_at_least;
  if (touched > kept) {
    madvise(data_ + kept, room_ - kept, MADV_DONTNEED);
    touched = kept;
  }
  touched_in_all += touched;
  list.push_back({data_, touched});
}

}  // namespace fairlead
