// SPDX-License-Identifier: Apache-2.0
//
// The hostile ROCm's virtual memory, its pools, and what ROCr tells of both. The provider below makes virtual
// memory in one go, so a reserved range has its memory from the start, and mapping is bookkeeping. What it
// cannot show is a program that maps in another order than range, memory, mapping; imported memory comes
// before its range.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "shim.h"

using namespace hostile;
using fairlead::device::AllocationProperties;
using fairlead::device::MemoryAccess;

namespace {

struct Physical {
  size_t bytes;
  int location = 0;
  int accessor = -1;  // the device that may use it
  int references = 1;
  const void* start = nullptr;  // where it is mapped
  bool imported = false;
};

// What travels as a file descriptor: where the importer finds the provider's own.
struct Envelope {
  pid_t process;
  int file;
  IpcHandle handle;
};

std::mutex mutex;
auto& mapped = *new std::map<const void*, Physical*>;
auto& pool_memory = *new std::set<const void*>;
auto& imports = *new std::map<const void*, int>;  // their devices
thread_local const void* import_without_range = nullptr;
thread_local int location_of_next = 0;

void release(Physical* physical) {
  if (physical->references == 0) die("physical memory was released more often than it was held");
  if (--physical->references == 0 && !physical->start) delete physical;
}

// A file of the simulated GPU may be opened again, which takes fewer rights than a copy of another's
// descriptor.
int take_file(const Envelope& envelope) {
  if (over_sim()) {
    std::string path = "/proc/" + std::to_string(envelope.process) + "/fd/" + std::to_string(envelope.file);
    return open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  int process = static_cast<int>(syscall(SYS_pidfd_open, envelope.process, 0));
  int theirs = process < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_getfd, process, envelope.file, 0));
  if (process >= 0) close(process);
  return theirs;
}

void before_rocm_6() {
  if (!behaviour.has_virtual_memory) die("virtual memory was used, whose structs had another layout");
}

}  // namespace

bool hostile::is_virtual(const void* start) {
  std::lock_guard lock(mutex);
  return mapped.count(start) || pool_memory.count(start);
}

void hostile::end_virtual_memory_of(int device) {
  const auto is_its = [&](const auto& start) { return query(start).device == device; };
  std::lock_guard lock(mutex);
  std::erase_if(mapped, [&](const auto& entry) { return is_its(entry.first); });
  std::erase_if(pool_memory, is_its);
  std::erase_if(imports, [&](const auto& entry) { return entry.second == device; });
}

void hostile::forget_pool_memory(const void* start) {
  std::lock_guard lock(mutex);
  pool_memory.erase(start);
}

int hostile::location_of(const void* start, int otherwise) {
  std::lock_guard lock(mutex);
  const auto found = mapped.find(start);
  return found == mapped.end() ? otherwise : found->second->location;
}

void* hostile::retain_physical(const void* start) {
  std::lock_guard lock(mutex);
  auto found = mapped.find(start);
  if (found != mapped.end()) {
    ++found->second->references;
    return found->second;
  }
  return pool_memory.count(start) ? &pool_memory : nullptr;
}

void hostile::release_physical(void* physical) {
  std::lock_guard lock(mutex);
  if (physical != &pool_memory) release(static_cast<Physical*>(physical));
}

#define BEGIN_VIRTUAL                  \
  if (int code = begin()) return code; \
  before_rocm_6();

SHIM int hipMemAddressReserve(void** address, size_t bytes, size_t, void*, unsigned long long) {
  BEGIN_VIRTUAL
  if (import_without_range) {
    *address = const_cast<void*>(import_without_range);
    import_without_range = nullptr;
    return result::success;
  }
  return remember(backend()->allocate_virtual_in(location_of_next, device(), bytes, address));
}
SHIM int hipMemAddressFree(void* address, size_t) {
  BEGIN_VIRTUAL
  std::unique_lock lock(mutex);
  if (auto entry = imports.find(address); entry != imports.end()) {
    int importer = entry->second;
    imports.erase(entry);
    lock.unlock();
    return remember(backend()->ipc_close(importer, address));
  }
  lock.unlock();
  return remember(backend()->free(address));
}
// The provider below makes ranges of pieces of ten granules, as Fairlead does, and this is where Fairlead
// says first where they are to lie.
SHIM int hipMemGetAllocationGranularity(size_t* granularity, const AllocationProperties* properties, int) {
  BEGIN_VIRTUAL
  if (properties->location.type != fairlead::device::driver_flag::location_device)
    return remember(result::invalid_value);
  location_of_next = properties->location.id;
  *granularity = over_sim() ? size_t{32} << 10 : size_t{2} << 20;
  return result::success;
}
SHIM int hipMemCreate(HipAbi::MemoryHandle* made, size_t bytes, const AllocationProperties* properties,
                      unsigned long long) {
  BEGIN_VIRTUAL
  *made = reinterpret_cast<HipAbi::MemoryHandle>(new Physical{bytes, properties->location.id});
  return result::success;
}
SHIM int hipMemRelease(HipAbi::MemoryHandle memory) {
  BEGIN_VIRTUAL
  std::lock_guard lock(mutex);
  release(reinterpret_cast<Physical*>(memory));
  return result::success;
}
SHIM int hipMemRetainAllocationHandle(HipAbi::MemoryHandle* memory, void* address) {
  BEGIN_VIRTUAL
  const void* start = reinterpret_cast<const void*>(query(address).base);
  std::lock_guard lock(mutex);
  if (auto found = mapped.find(start); found != mapped.end()) {
    if (behaviour.retain_counts) ++found->second->references;
    *memory = reinterpret_cast<HipAbi::MemoryHandle>(found->second);
    return result::success;
  }
  if (!pool_memory.count(start) && !behaviour.retain_refuses_ordinary) raise(SIGSEGV);
  return remember(result::invalid_value);
}
SHIM int hipMemMap(void* address, size_t bytes, size_t, HipAbi::MemoryHandle memory, unsigned long long) {
  BEGIN_VIRTUAL
  auto* physical = reinterpret_cast<Physical*>(memory);
  Allocation piece = query(address);
  std::lock_guard lock(mutex);
  // A driver may tell of the whole range that a piece lies in.
  const uint64_t before = reinterpret_cast<uintptr_t>(address) - piece.base;
  if ((over_sim() && before > 0) || bytes != physical->bytes || before + bytes > piece.size)
    return remember(result::invalid_value);
  physical->start = address;
  mapped[address] = physical;
  return result::success;
}
SHIM int hipMemUnmap(void* address, size_t) {
  BEGIN_VIRTUAL
  std::lock_guard lock(mutex);
  auto found = mapped.find(address);
  if (found == mapped.end()) return remember(result::invalid_value);
  Physical* physical = found->second;
  mapped.erase(found);
  physical->start = nullptr;
  if (physical->references == 0) delete physical;
  return result::success;
}
SHIM int hipMemSetAccess(void* address, size_t, const MemoryAccess* access, size_t) {
  BEGIN_VIRTUAL
  std::lock_guard lock(mutex);
  mapped.at(address)->accessor = access->location.id;
  return result::success;
}
SHIM int hipMemGetAccess(unsigned long long* flags, const fairlead::device::MemoryLocation* location,
                         void* address) {
  BEGIN_VIRTUAL
  const void* start = reinterpret_cast<const void*>(query(address).base);
  std::lock_guard lock(mutex);
  const auto found = mapped.find(start);
  if (found == mapped.end()) return remember(result::invalid_value);
  using namespace fairlead::device::driver_flag;
  *flags = found->second->accessor == location->id ? access_read_write : access_none;
  return result::success;
}

// The file stays open here: the importer takes it from this process.
SHIM int hipMemExportToShareableHandle(void* shared, HipAbi::MemoryHandle memory, int, unsigned long long) {
  BEGIN_VIRTUAL
  auto* physical = reinterpret_cast<Physical*>(memory);
  Envelope envelope{getpid(), -1, {}};
  int code = remember(backend()->ipc_export(physical->start, &envelope.handle, &envelope.file));
  if (code) return code;
  int file = memfd_create("hostile-rocm", MFD_CLOEXEC);
  if (file < 0 || write(file, &envelope, sizeof envelope) != sizeof envelope)
    return remember(result::out_of_memory);
  *static_cast<int*>(shared) = file;
  return result::success;
}
SHIM int hipMemImportFromShareableHandle(HipAbi::MemoryHandle* memory, void* shared, int) {
  BEGIN_VIRTUAL
  int file = behaviour.imports_by_value ? static_cast<int>(reinterpret_cast<intptr_t>(shared))
                                        : *static_cast<int*>(shared);
  Envelope envelope{};
  if (pread(file, &envelope, sizeof envelope, 0) != sizeof envelope) return remember(result::invalid_value);
  int theirs = take_file(envelope);
  if (theirs < 0) return remember(result::invalid_value);
  void* base = nullptr;
  int code = remember(backend()->ipc_import(device(), envelope.handle, theirs, &base));
  close(theirs);
  if (code) return code;
  std::lock_guard lock(mutex);
  imports[base] = device();
  import_without_range = base;
  *memory = reinterpret_cast<HipAbi::MemoryHandle>(
      new Physical{.bytes = query(base).size, .location = device(), .imported = true});
  return result::success;
}

// How often ROCr was asked what memory is.
extern "C" __attribute__((visibility("default"))) std::atomic<int> hostile_rocm_questions;
std::atomic<int> hostile_rocm_questions = 0;

// ---- What comes and goes with a release ----------------------------------------------------------------

#if FAIRLEAD_HOSTILE_MAJOR >= 6
SHIM int hipGetDevicePropertiesR0600(void*, int) {
  return remember(result::not_supported);
}
SHIM int hipPointerSetAttribute(const void*, int, void* address) {
  if (int code = begin()) return code;
  const Error error = backend()->set_sync_memops(address);
  return remember(error == Error::not_ready ? Error::none : error);
}
// Pools are made of virtual memory.
SHIM int hipMallocAsync(void** address, size_t bytes, HipAbi::Stream) {
  if (int code = begin()) return code;
  int code = remember(backend()->allocate_from_pool(device(), bytes, address));
  std::lock_guard lock(mutex);
  if (!code) pool_memory.insert(*address);
  return code;
}

SHIM int hsa_amd_vmem_retain_alloc_handle(uint64_t* handle, void* address) {
  ++hostile_rocm_questions;
  constexpr int invalid_allocation = 0x1005;
  void* physical = begin() ? nullptr : retain_physical(address);
  *handle = reinterpret_cast<uint64_t>(physical);
  return physical ? 0 : invalid_allocation;
}
SHIM int hsa_amd_vmem_handle_release(uint64_t handle) {
  release_physical(reinterpret_cast<void*>(handle));
  return 0;
}
#endif

// How ROCr calls the processor and the GPUs.
constexpr uint64_t processor = 1000, first_gpu = 2000;

SHIM int hsa_amd_pointer_info(const void* address, void* info, void*, void*, void*) {
  ++hostile_rocm_questions;
  enum Type : int { unknown = 0, allocated = 1, locked = 2, imported = 4, virtual_memory = 6 };
  constexpr int error = 0x1000;
  if (begin()) return error;
  struct Known {
    uint32_t size;
    int type;
    void *base, *host_base;
    size_t bytes;
    void* user_data;
    uint64_t owner;
  };
  auto* known = static_cast<Known*>(info);
  Allocation found = query(address);
  const auto* start = reinterpret_cast<const void*>(found.base);
  known->type = found.kind == MemoryKind::host                      ? unknown
                : is_of_rocr(start)                                 ? allocated
                : found.kind == MemoryKind::pinned                  ? locked
                : is_imported(start)                                ? imported
                : is_virtual(start) && behaviour.rocr_names_virtual ? virtual_memory
                                                                    : allocated;
  if (known->type == unknown) return 0;
  known->base = known->host_base = const_cast<void*>(start);
  known->bytes = found.size;
  known->owner = found.kind == MemoryKind::pinned  ? processor
                 : ordinal_of(owner_of(found)) < 0 ? 0
                                                   : first_gpu + static_cast<uint64_t>(owner_of(found));
  return 0;
}
SHIM int hsa_agent_get_info(uint64_t agent, int attribute, void* value) {
  enum Attribute : int { device_type = 17, bus_device_function = 0xA006, domain = 0xA00F };
  constexpr int error = 0x1000;
  fairlead::device::DeviceInfo info{};
  unsigned numbers[4] = {};
  if (begin() || (agent != processor &&
                  backend()->device_info(static_cast<int>(agent - first_gpu), &info) != Error::none))
    return error;
  if (agent != processor &&
      std::sscanf(info.pci, "%x:%x:%x.%x", &numbers[0], &numbers[1], &numbers[2], &numbers[3]) != 4)
    return error;
  auto* into = static_cast<uint32_t*>(value);
  switch (attribute) {
    case device_type:
      *into = agent != processor;
      return 0;
    case bus_device_function:
      *into = numbers[1] << 8 | numbers[2] << 3 | numbers[3];
      return 0;
    case domain:
      *into = numbers[0];
      return 0;
    default:
      return error;
  }
}
