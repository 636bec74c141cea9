// SPDX-License-Identifier: Apache-2.0
//
// The hostile ROCm's memory: attributes of pointers, memory of other processes, and page-locked memory that
// is not coherent unless it was asked to be.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "shim.h"

namespace hostile {
namespace {

std::mutex mutex;
auto& imported = *new std::map<const void*, int>;  // the devices that own it
auto& of_rocr = *new std::set<const void*>;

// Coarse-grained memory: the CPU's view is a private copy of what the GPU sees, and `seen` what both held
// when they last met. Only over the simulated GPU, whose memory can be hidden behind such a copy.
struct Coarse {
  size_t bytes;
  std::vector<char> seen;
};
auto& coarse = *new std::map<char*, Coarse>;

// Far from all memory.
constexpr uintptr_t device_address_bit = uintptr_t{1} << 60;

// Registered memory that can be mapped twice: there kernels find it, by the address of the memory.
struct Alias {
  char* address;
  size_t bytes;
};
auto& aliases = *new std::map<char*, Alias>;

// The same byte in the other mapping; null if the address is in no memory that is mapped twice.
enum class Way { to_kernels, to_host };
void* other_place(void* address, Way way) {
  std::lock_guard lock(mutex);
  for (const auto& [memory, alias] : aliases) {
    char* const from = way == Way::to_kernels ? memory : alias.address;
    char* const to = way == Way::to_kernels ? alias.address : memory;
    const ptrdiff_t at = static_cast<char*>(address) - from;
    if (at >= 0 && at < ptrdiff_t(alias.bytes)) return to + at;
  }
  return nullptr;
}

size_t pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// At once, between the memory that the GPU sees at this address and other memory.
void copy_now(void* to, const void* from, size_t bytes) {
  static fairlead::device::Stream stream = nullptr;
  static uint32_t context = 0;
  const uint32_t now = backend()->context_number(0);
  if (!stream || std::exchange(context, now) != now)
    if (backend()->create_stream(0, &stream) != Error::none) die("no stream");
  if (backend()->copy(to, from, bytes, stream) != Error::none ||
      backend()->synchronize_stream(stream) != Error::none)
    die(backend()->error_text());
}

}  // namespace

Allocation query(const void* address) {
  Allocation found;
  backend()->query(address, &found);
  return found;
}

void* at_host(void* address) {
  if (void* there = other_place(address, Way::to_host)) return there;
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~device_address_bit);
}

bool is_imported(const void* start) {
  std::lock_guard lock(mutex);
  return imported.count(start) != 0;
}

bool is_of_rocr(const void* start) {
  std::lock_guard lock(mutex);
  return of_rocr.count(start) != 0;
}

int owner_of(const Allocation& memory) {
  std::lock_guard lock(mutex);
  const auto found = imported.find(reinterpret_cast<const void*>(memory.base));
  return found == imported.end() ? memory.device : found->second;
}

// Of page-locked memory, the provider below ends what it has made for the device.
void end_memory_of(int device) {
  const auto is_its = [&](const void* address) { return query(address).device == device; };
  std::lock_guard lock(mutex);
  std::erase_if(imported, [&](const auto& entry) { return is_its(entry.first); });
  std::erase_if(of_rocr, is_its);
  std::erase_if(coarse, [&](const auto& entry) { return is_its(entry.first); });
  std::erase_if(aliases, [&](const auto& entry) {
    if (!is_its(entry.first)) return false;
    if (backend()->unregister_host(entry.second.address) != Error::none) die(backend()->error_text());
    munmap(entry.second.address, entry.second.bytes);
    return true;
  });
}

void show_to_gpu() {
  std::lock_guard lock(mutex);
  for (auto& [start, block] : coarse) {
    for (size_t at = 0; at < block.bytes; ++at) {
      size_t end = at;
      while (end < block.bytes && start[end] != block.seen[end]) block.seen[end] = start[end], ++end;
      if (end == at) continue;
      copy_now(start + at, block.seen.data() + at, end - at);
      at = end;
    }
  }
}

void show_to_cpu() {
  std::lock_guard lock(mutex);
  for (auto& [start, block] : coarse) {
    std::vector<char> now(block.bytes);
    copy_now(now.data(), start, block.bytes);
    for (size_t at = 0; at < block.bytes; ++at)
      if (now[at] != block.seen[at]) start[at] = block.seen[at] = now[at];
  }
}

}  // namespace hostile

using namespace hostile;

namespace {

// What HIP tells of all memory that only ROCr knows.
const Allocation whole{.kind = MemoryKind::device,
                       .device = 0,
                       .base = 0x100,
                       .size = HipAbi::whole_address_space,
                       .id = 1u << 30};

bool is_of_rocr(const Allocation& memory) {
  return hostile::is_of_rocr(reinterpret_cast<const void*>(memory.base));
}

}  // namespace

SHIM int hipPointerGetAttributes(HipAbi::PointerAttributes* attributes, const void* address) {
  constexpr auto types = behaviour.is_renumbered ? HipAbi::rocm_6_types : HipAbi::rocm_5_types;
  if (int code = begin()) return code;
  Allocation found = query(address);
  constexpr size_t known = offsetof(HipAbi::PointerAttributes, room);  // what the real one writes
  std::memset(attributes, 0, known);
  if (found.kind == MemoryKind::host)
    return behaviour.is_renumbered ? result::success : remember(result::invalid_value);
  void* same = const_cast<void*>(address);
  attributes->device_pointer = same;
  if (is_of_rocr(found)) {
    attributes->type = types.device;
    return result::success;
  }
  const int located = location_of(reinterpret_cast<const void*>(found.base), found.device);
  attributes->device = located < 0 ? located : ordinal_of(located);
  attributes->is_managed = found.kind == MemoryKind::managed;
  attributes->type = found.kind == MemoryKind::managed  ? HipAbi::memory_managed
                     : found.kind == MemoryKind::device ? types.device
                                                        : types.host;
  if (found.kind != MemoryKind::device) attributes->host_pointer = same;
  return result::success;
}
SHIM int hipPointerGetAttribute(void* value, int attribute, void* address) {
  if (int code = begin()) return code;
  Allocation found = query(address);
  if (attribute != fairlead::device::driver_flag::pointer_buffer_id || found.kind == MemoryKind::host)
    return remember(result::invalid_value);
  if (is_of_rocr(found)) found.id = whole.id;
  const uint64_t id = found.id % (uint64_t{1} << fairlead::device::context_bit);  // HIP's tells no context
  std::memcpy(value, &id, behaviour.is_renumbered ? sizeof id : sizeof(uint32_t));
  return result::success;
}
SHIM int hipMemGetAddressRange(void** base, size_t* size, void* address) {
  if (int code = begin()) return code;
  Allocation found = query(address);
  if (found.kind == MemoryKind::host) return remember(result::invalid_value);
  if (is_of_rocr(found)) found = whole;
  *base = reinterpret_cast<void*>(found.base);
  *size = found.size;
  return result::success;
}
SHIM int hipMalloc(void** address, size_t bytes) {
  if (int code = begin()) return code;
  note_active(device());
  return remember(backend()->allocate(device(), bytes, address));
}
SHIM int hipExtMallocWithFlags(void** address, size_t bytes, unsigned flags) {
  if (flags != HipAbi::fine_grained) return remember(Error::invalid_value);
  return hipMalloc(address, bytes);
}
SHIM int hipMallocManaged(void** address, size_t bytes, unsigned) {
  int code = begin();
  return code ? code : remember(backend()->allocate_managed(device(), bytes, address));
}
DISPATCHED(hipFree, (void* address), (address)) {
  if (int code = begin(); code || !address) return code;
  forget_pool_memory(address);
  return remember(backend()->free(address));
}
SHIM int hipHostMalloc(void** address, size_t bytes, unsigned flags) {
  if (int code = begin()) return code;
  note_active(device());
  int its = device();
  int code = remember(backend()->allocate_pinned(bytes, address, &its));
  const bool coherent = flags == 0 || flags & HipAbi::pinned_coherent;
  if (code || coherent || !over_sim()) return code;
  std::lock_guard lock(mutex);
  if (mmap(*address, pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
      MAP_FAILED)
    die("page-locked memory cannot be mapped");
  coarse[static_cast<char*>(*address)] = {bytes, std::vector<char>(bytes)};
  return code;
}
DISPATCHED(hipHostFree, (void* address), (address)) {
  if (int code = begin()) return code;
  {
    std::lock_guard lock(mutex);
    coarse.erase(static_cast<char*>(address));
  }
  return remember(backend()->free_pinned(address));
}
SHIM int hipHostRegister(void* address, size_t bytes, unsigned) {
  if (int code = begin()) return code;
  int its = device();
  if (int code = remember(backend()->register_host(address, bytes, &its))) return code;
  // Possible for shared memory that begins at a page.
  void* alias = mremap(address, 0, pages(bytes), MREMAP_MAYMOVE);
  if (alias == MAP_FAILED) return result::success;
  if (backend()->register_host(alias, pages(bytes), &its) != Error::none) die(backend()->error_text());
  std::lock_guard lock(mutex);
  aliases[static_cast<char*>(address)] = {static_cast<char*>(alias), pages(bytes)};
  return result::success;
}
DISPATCHED(hipHostUnregister, (void* address), (address)) {
  if (int code = begin()) return code;
  if (int code = remember(backend()->unregister_host(address))) return code;
  std::lock_guard lock(mutex);
  if (auto found = aliases.find(static_cast<char*>(address)); found != aliases.end()) {
    if (backend()->unregister_host(found->second.address) != Error::none) die(backend()->error_text());
    munmap(found->second.address, found->second.bytes);
    aliases.erase(found);
  }
  return result::success;
}
SHIM int hipHostGetDevicePointer(void** there, void* address, unsigned) {
  if (int code = begin()) return code;
  if (query(address).kind != MemoryKind::pinned) return remember(result::invalid_value);
  *there = other_place(address, Way::to_kernels);
  if (!*there) *there = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) | device_address_bit);
  return result::success;
}
SHIM int hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  int code = begin();
  return code ? code : remember(backend()->memory_info(device(), free_bytes, total_bytes));
}

// ---- Memory of other processes -------------------------------------------------------------------------

namespace {

// A handle of virtual memory, as releases make it that do not refuse.
constexpr char poisoned[] = "a handle of virtual memory";

// Those of the simulated GPU have room for the owner.
int* owner_in(HipAbi::IpcMemory* memory) {
  return reinterpret_cast<int*>(memory->bytes + sizeof memory->bytes) - 1;
}

}  // namespace

SHIM int hipIpcGetMemHandle(HipAbi::IpcMemory* memory, void* base) {
  if (int code = begin()) return code;
  if (has_fault("ipc_fails") || is_of_rocr(base)) return remember(result::invalid_value);
  if (is_virtual(base)) {
    if (behaviour.ipc_refuses_virtual) return remember(result::invalid_value);
    *memory = {};
    std::memcpy(memory->bytes, poisoned, sizeof poisoned);
    return result::success;
  }
  IpcHandle handle{};
  int file = -1;
  int code = remember(backend()->ipc_export(base, &handle, &file));
  if (file >= 0) close(file);
  if (!code) std::memcpy(memory, &handle, sizeof *memory);
  if (!code && over_sim()) *owner_in(memory) = query(base).device;
  return code;
}
SHIM int hipIpcOpenMemHandle(void** base, HipAbi::IpcMemory memory, unsigned flags) {
  if (int code = begin()) return code;
  // Each release accepts one value only.
  if (flags != (behaviour.is_renumbered ? 1u : 0u)) return remember(result::invalid_value);
  if (std::memcmp(memory.bytes, poisoned, sizeof poisoned) == 0)
    die("a handle of virtual memory was opened: kernel BUG, memory is lost until the machine starts again");
  IpcHandle handle{};
  const int owner = over_sim() ? std::exchange(*owner_in(&memory), 0) : device();
  std::memcpy(&handle, &memory, sizeof handle);
  int code = remember(backend()->ipc_import(device(), handle, -1, base));
  if (code) return code;
  std::lock_guard lock(mutex);
  imported[*base] = owner;
  return code;
}
SHIM int hipIpcCloseMemHandle(void* base) {
  if (int code = begin()) return code;
  {
    std::lock_guard lock(mutex);
    imported.erase(base);
  }
  return remember(backend()->ipc_close(device(), base));
}

// As a runtime of OpenMP offload allocates it, by hsa_amd_memory_pool_allocate(); device -1: host memory.
SHIM int hostile_rocr_allocate(int device, size_t bytes, void** address) {
  if (int code = begin()) return code;
  const Error error =
      device < 0 ? backend()->allocate_pinned(bytes, address) : backend()->allocate(device, bytes, address);
  std::lock_guard lock(mutex);
  if (error == Error::none) of_rocr.insert(*address);
  return remember(error);
}
SHIM int hostile_rocr_free(void* address) {
  {
    std::lock_guard lock(mutex);
    of_rocr.erase(address);
  }
  return remember(query(address).kind == MemoryKind::pinned ? backend()->free_pinned(address)
                                                            : backend()->free(address));
}
