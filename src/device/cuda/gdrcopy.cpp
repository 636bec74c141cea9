// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/gdrcopy.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

namespace fairlead::device {
namespace {

constexpr uintptr_t page_bytes = 65536;  // of the GPU: the unit of pinning and mapping
constexpr int asked_before_pinning = 8;
constexpr size_t pages_kept = 64;

}  // namespace

Gdrcopy* Gdrcopy::open() {
  void* file = dlopen("libgdrapi.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!file) return nullptr;
  auto* made = new Gdrcopy;  // lives as long as the process, like its library
  bool complete = made->open_.bind(file) && made->pin_.bind(file) && made->unpin_.bind(file) &&
                  made->map_.bind(file) && made->unmap_.bind(file);
  if (complete) made->library_ = made->open_();
  if (made->library_) return made;
  delete made;
  return nullptr;
}

void* Gdrcopy::map(const Allocation& allocation, const void* address, size_t bytes) {
  auto place = reinterpret_cast<uintptr_t>(address);
  uintptr_t start = place / page_bytes * page_bytes;
  // An access that crosses a page boundary is rare; a copy engine handles it.
  if (place + bytes > start + page_bytes || place + bytes > allocation.base + allocation.size) return nullptr;
  std::lock_guard lock(mutex_);
  Page& page = find(start, allocation.id);
  if (!page.mapped && !page.refused && ++page.asked > asked_before_pinning) pin(page);
  return page.mapped ? page.mapped + (place - start) : nullptr;
}

// Several allocations may share a page. A mapping is valid only as long as the memory for which it was
// created, so each allocation has its own.
Gdrcopy::Page& Gdrcopy::find(uintptr_t start, uint64_t allocation) {
  auto found = std::find_if(pages_.begin(), pages_.end(), [&](const Page& page) {
    return page.start == start && page.allocation == allocation;
  });
  if (found != pages_.end()) {
    pages_.splice(pages_.begin(), pages_, found);
    return pages_.front();
  }
  if (pages_.size() >= pages_kept) {
    unpin(pages_.back());
    pages_.pop_back();
  }
  pages_.push_front({start, allocation});
  return pages_.front();
}

void Gdrcopy::pin(Page& page) {
  page.refused = true;
  if (pin_(library_, page.start, page_bytes, 0, 0, &page.handle) != 0) return;
  void* mapped = nullptr;
  if (map_(library_, page.handle, &mapped, page_bytes) == 0) {
    page.mapped = static_cast<char*>(mapped);
    page.refused = false;
  } else {
    unpin_(library_, page.handle);
  }
}

void Gdrcopy::unpin(Page& page) {
  if (!page.mapped) return;
  unmap_(library_, page.handle, page.mapped, page_bytes);
  unpin_(library_, page.handle);
}

}  // namespace fairlead::device
