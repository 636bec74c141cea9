// SPDX-License-Identifier: Apache-2.0

#include "mpi/stream/cells.h"

#include <mutex>
#include <vector>

#include "device/runtime.h"

namespace fairlead::mpi {
namespace {

std::mutex mutex;
auto& unused = *new std::vector<uint64_t*>;

// Without the lock, which threads that make progress take.
uint64_t* make_page() {
  constexpr size_t bytes = 4096;
  void* page = nullptr;
  if (device::runtime()->allocate_pinned(bytes, &page) != device::Error::none) return nullptr;
  auto* const first = static_cast<uint64_t*>(page);
  std::lock_guard lock(mutex);
  for (size_t i = bytes / sizeof *first; i-- > 1;) unused.push_back(first + i);
  return first;
}

}  // namespace

uint64_t* take_cell() {
  uint64_t* cell = nullptr;
  {
    std::lock_guard lock(mutex);
    if (!unused.empty()) {
      cell = unused.back();
      unused.pop_back();
    }
  }
  if (!cell) cell = make_page();
  if (cell) *cell = 0;
  return cell;
}

void give_back_cell(uint64_t* cell) {
  std::lock_guard lock(mutex);
  if (cell) unused.push_back(cell);
}

}  // namespace fairlead::mpi
