// SPDX-License-Identifier: Apache-2.0

#include "mpi/stream/cells.h"

#include <sys/mman.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "base/memory/page_size.h"
#include "device/blocking_driver_calls.h"
#include "device/context.h"
#include "mpi/abi/mutex.h"

namespace fairlead::mpi {
namespace {

// Pages are memory of this process's own, registered with the driver: the CPU may still access them after a
// reset of the device.
struct Page {
  int device;
  device::Context context;
};

Mutex mutex;
auto& pages = *new std::map<uintptr_t, Page>;
auto& unused = *new std::map<int, std::vector<uint64_t*>>;  // by device
size_t in_use = 0;

// The caller holds the lock.
const Page& page_of(const void* cell) {
  return pages.at(reinterpret_cast<uintptr_t>(cell) / page_size() * page_size());
}

// Without the lock, which threads that make progress take.
uint64_t* make_page(int device) {
  void* page = mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  const device::Context context(device);
  if (device::BlockingDriverCalls::of_program()->register_host(page, page_size(), &device) !=
      device::Error::none) {
    munmap(page, page_size());
    return nullptr;
  }
  auto* const first = static_cast<uint64_t*>(page);
  std::lock_guard lock(mutex);
  pages[reinterpret_cast<uintptr_t>(page)] = {device, context};
  for (size_t i = page_size() / sizeof *first; i-- > 1;) unused[device].push_back(first + i);
  ++in_use;
  return first;
}

}  // namespace

uint64_t* take_cell(int device) {
  uint64_t* cell = nullptr;
  {
    std::lock_guard lock(mutex);
    std::vector<uint64_t*>& cells = unused[device];
    while (!cell && !cells.empty()) {
      if (!page_of(cells.back()).context.is_gone()) cell = cells.back();
      cells.pop_back();
    }
    in_use += cell != nullptr;
  }
  if (!cell) cell = make_page(device);
  if (cell) *cell = 0;
  return cell;
}

void give_back_cell(uint64_t* cell) {
  std::lock_guard lock(mutex);
  if (!cell) return;
  unused[page_of(cell).device].push_back(cell);
  --in_use;
}

size_t cells_in_use() {
  std::lock_guard lock(mutex);
  return in_use;
}

bool cell_is_gone(const void* cell) {
  std::lock_guard lock(mutex);
  return page_of(cell).context.is_gone();
}

}  // namespace fairlead::mpi
