// SPDX-License-Identifier: Apache-2.0

#include "base/memory/host_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/memory/page_size.h"

namespace fairlead {
namespace {

// Fresh pages cost more than a copy, so released buffers keep their pages up to a limit.
constexpr size_t kept_in_all = size_t{256} << 20;
constexpr size_t kept_at_least = size_t{1} << 20;  // per buffer, once that limit is reached
constexpr int smallest_class[] = {12, 7};          // for buffers of any use, and for receive buffers
constexpr int largest_class = 36;
constexpr size_t kept_warm = 64;  // per class; further buffers keep only their first page
constexpr size_t kept_per_class = 1024;

struct Idle {
  unsigned char* data;
  size_t touched;
};

std::mutex mutex;
using IdleOfClass = std::array<std::vector<Idle>, largest_class + 1>;
auto& idle = *new std::array<IdleOfClass, 2>;
auto& idle_apart = *new IdleOfClass;  // receive buffers
size_t touched_in_all = 0;            // idle buffers

unsigned char* map(size_t bytes) {
  void* fresh =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return fresh == MAP_FAILED ? nullptr : static_cast<unsigned char*>(fresh);
}

constexpr size_t nobodys_bytes = size_t{64} << 20;
constexpr size_t nobodys_bytes_apart = size_t{1} << 20;
int left_to_make_apart = 128;  // receive buffers

// The free parts of the regions for receive buffers. Regions are permanent. Each is as long as all previous
// ones together, so that apart from their unused ends they take at most twice the space in use.
class Regions {
 public:
  // Returns space for a buffer of this length; null if no memory is available.
  unsigned char* take(size_t bytes) {
    auto region = std::find_if(regions_.begin(), regions_.end(),
                               [&](const Region& r) { return bytes <= r.end - r.aligned(bytes); });
    if (region == regions_.end()) {
      const size_t length = std::max(bytes, std::min(in_all_, longest));
      unsigned char* fresh = map(length + nobodys_bytes);
      if (!fresh) return nullptr;
      in_all_ += length;
      std::erase_if(regions_, [](const Region& r) { return r.end - r.next < page_size(); });
      const auto begin = reinterpret_cast<uintptr_t>(fresh);
      region = regions_.insert(regions_.end(), {begin, begin + length});
    }
    const uintptr_t taken = region->aligned(bytes);
    region->next = taken + bytes;
    return reinterpret_cast<unsigned char*>(taken);
  }

 private:
  static constexpr size_t shortest = size_t{16} << 20, longest = nobodys_bytes;
  struct Region {
    uintptr_t next, end;
    // Buffers start on page boundaries, because pages are returned to the system individually.
    uintptr_t aligned(size_t bytes) const {
      const size_t unit = std::min(bytes, page_size());
      return std::min((next + unit - 1) / unit * unit, end);
    }
  };
  std::vector<Region> regions_;
  size_t in_all_ = shortest;
};

auto& regions = *new Regions;

}  // namespace

template <class List>
bool HostBuffer::take_from(List* list) {
  if (list->empty()) return false;
  data_ = list->back().data;
  touched_before_ = list->back().touched;
  touched_in_all -= touched_before_;
  list->pop_back();
  return true;
}

HostBuffer::HostBuffer(size_t bytes, For use) : use_(use), bytes_(bytes) {
  const auto which = static_cast<size_t>(use);
  room_ = std::max(bytes, size_t{1});
  size_class_ = std::max(smallest_class[which], static_cast<int>(std::bit_width(room_ - 1)));
  if (size_class_ <= largest_class) {
    room_ = size_t{1} << size_class_;
    std::lock_guard lock(mutex);
    const auto of_class = static_cast<size_t>(size_class_);
    if (use == For::receive && take_from(&idle_apart[of_class])) {
      apart_ = true;
      return;
    }
    if (use == For::receive && left_to_make_apart > 0 &&
        (data_ = regions.take(room_ + nobodys_bytes_apart))) {
      --left_to_make_apart;
      apart_ = true;
      return;
    }
    if (take_from(&idle[which][of_class])) return;
    if (use == For::receive) {
      data_ = regions.take(room_);
      return;
    }
  } else if (use == For::receive) {
    room_ += nobodys_bytes;
  }
  data_ = map(room_);
}

HostBuffer::~HostBuffer() {
  if (!data_) return;
  if (size_class_ > largest_class) {
    munmap(data_, room_);
    return;
  }
  size_t touched = std::max(bytes_, touched_before_);
  std::lock_guard lock(mutex);
  auto& list = (apart_ ? idle_apart : idle[static_cast<size_t>(use_)])[static_cast<size_t>(size_class_)];
  if (use_ == For::any && list.size() >= kept_per_class) {
    munmap(data_, room_);
    return;
  }
  size_t kept = list.size() >= kept_per_class             ? 0
                : list.size() >= kept_warm                ? page_size()
                : touched_in_all + touched <= kept_in_all ? room_
                                                          : kept_at_least;
  if (touched > kept && room_ >= page_size()) {  // smaller buffers share pages
    madvise(data_ + kept, room_ - kept, MADV_DONTNEED);
    touched = kept;
  }
  touched_in_all += touched;
  list.push_back({data_, touched});
}

}  // namespace fairlead
