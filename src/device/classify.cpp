// SPDX-License-Identifier: Apache-2.0

#include "device/classify.h"

#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/options.h"
#include "device/blocking_driver_calls.h"
#include "device/known_ids.h"

namespace fairlead::device {
namespace {

std::atomic<int> device_of_progress = -1, device_of_memory = -1;
std::atomic<uint64_t> seen = 0;

struct Range {
  uintptr_t begin = 0, end = 0;
  bool contains(uintptr_t address) const { return address - begin < end - begin; }
};

// Returns the range of the program's own writable and read-only segments, that is, of its static variables
// and constants. The program break starts just above them, or a little higher if the kernel randomises it.
Range program_image() {
  Range image;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        auto* image = static_cast<Range*>(into);
        image->begin = UINTPTR_MAX;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          uintptr_t start = info->dlpi_addr + segment.p_vaddr;
          image->begin = std::min(image->begin, start);
          image->end = std::max(image->end, start + segment.p_memsz);
        }
        return 1;  // the first object is the program itself; library addresses go to the driver
      },
      &image);
  return image;
}

Range thread_stack() {
  Range stack;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return stack;
  void* low = nullptr;
  size_t bytes = 0;
  if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
    stack.begin = reinterpret_cast<uintptr_t>(low);
    stack.end = stack.begin + bytes;
  }
  pthread_attr_destroy(&attributes);
  return stack;
}

// With `ulimit -s unlimited`, the declared stack of the main thread may cover the whole address space. Only
// the part above the current frame is certain to be stack.
bool on_stack(uintptr_t address) {
  thread_local const Range stack = thread_stack();
  uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return address >= here && address < stack.end;
}

// The heap begins a little above the program image. The function calls sbrk() only for addresses beyond the
// known end of the heap: MPI libraries hook sbrk(), which then costs more than the rest of this function.
bool in_program_memory(uintptr_t address) {
  static const Range image = program_image();
  constexpr uintptr_t largest = uintptr_t{1} << 40;
  if (image.contains(address)) return true;
  if (address - image.end >= largest) return false;
  uintptr_t end = reinterpret_cast<uintptr_t>(sbrk(0));
  detail::program_memory.begin.store(image.begin, std::memory_order_relaxed);
  detail::program_memory.bytes.store(std::max(end, image.end) - image.begin, std::memory_order_release);
  return address < end;
}

// Memory for which settle() has done what it can.
KnownIds settled;

// A short while: of the calls that returned early, it covers the copies of pageable memory, which are in
// flight for a few microseconds. The device may be busy with kernels for longer, which may wait for this
// process.
void await_application(int device) {
  constexpr std::chrono::microseconds patience{50};
  const auto start = std::chrono::steady_clock::now();
  while (runtime()->query_application(device) == Error::not_ready &&
         std::chrono::steady_clock::now() - start < patience) {
  }
}

// After this, MPI may read and write the memory as soon as the program's cudaMemcpy() or cudaMemset() has
// returned.
void settle(const void* address, const Allocation& memory) {
  Error before;
  {
    const BlockingDriverCalls calls;
    if (!calls.may_allocate()) return;
    before = calls->set_sync_memops(address);
  }
  if (before != Error::none) {
    int current = memory.device;
    (void)runtime()->current_device(&current);
    await_application(memory.device);
    if (current != memory.device) await_application(current);
  }
  settled.add(memory.id);
}

}  // namespace

constinit detail::ProgramMemory detail::program_memory;

bool detail::found_to_be_host(uintptr_t address) {
  return address == 0 || on_stack(address) || in_program_memory(address);
}

Allocation classify(const void* address) {
  Allocation allocation;
  PromptRuntime* gpu = runtime();
  if (gpu) gpu->query(address, &allocation);
  if (allocation.kind == MemoryKind::managed && options().managed == "device")
    allocation.kind = MemoryKind::device;
  if (allocation.kind == MemoryKind::device) {
    device_of_memory.store(allocation.device, std::memory_order_relaxed);
    const uint64_t bit = uint64_t{1} << allocation.device;
    if (!(seen.load(std::memory_order_relaxed) & bit)) seen |= bit;
    if (!settled.contains(allocation.id)) settle(address, allocation);
  }
  return allocation;
}

uint64_t devices_seen() {
  return seen.load(std::memory_order_relaxed);
}

void set_device_of_progress(int device) {
  device_of_progress = device;
}

int device_in_use() {
  PromptRuntime* gpu = runtime();
  int count = 0, current = -1;
  if (!gpu || !gpu->in_use()) return -1;
  if (device_of_progress >= 0)
    current = device_of_progress;
  else if (BlockingDriverCalls::in_thread_of_library)
    current = device_of_memory;
  else if (gpu->current_device(&current) != Error::none)
    current = -1;
  if (current >= 0 && gpu->has_context(current)) return current;
  if (gpu->device_count(&count) != Error::none) return -1;
  for (int device = 0; device < count; ++device)
    if (gpu->has_context(device)) return device;
  return -1;
}

}  // namespace fairlead::device
