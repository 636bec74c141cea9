// SPDX-License-Identifier: Apache-2.0
//
// A libamdhip64.so for tests: each HIP function that Fairlead uses, done by the CUDA driver, so that the ROCm
// provider runs on an NVIDIA GPU. It keeps HIP's ways where they differ from CUDA's: the current device
// instead of contexts, initialisation by the first call, a thread's last error, device code in place of PTX
// (here PTX is what is accepted). FAIRLEAD_SHIM_ROCM (5 or 6) is the release whose pointer attributes it has.
// Found through LD_LIBRARY_PATH, with FAIRLEAD_DEVICE=rocm.

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>

#include "device/cuda_abi.h"
#include "device/hip_abi.h"

using fairlead::device::CudaAbi;
using fairlead::device::HipAbi;
namespace result = fairlead::device::driver_result;

namespace {

thread_local int current_device = 0;
thread_local int last_error = result::success;

int remember(int code) {
  if (code != result::success) last_error = code;
  return code;
}

struct Driver : CudaAbi {
  int state = result::not_initialized;

  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || bind(library)) {
      state = result::no_device;
      return;
    }
    state = init(0);
  }
};

Driver& driver() {
  static Driver driver;
  return driver;
}

// Makes the primary context of this thread's device current, as every HIP call finds it.
int ready() {
  Driver& cuda = driver();
  if (cuda.state != result::success) return cuda.state;
  static std::mutex mutex;
  static CudaAbi::Context contexts[64] = {};
  std::lock_guard lock(mutex);
  CudaAbi::Context& context = contexts[current_device];
  if (!context) {
    if (int code = cuda.primary_retain(&context, current_device)) return code;
  }
  return cuda.context_set_current(context);
}

template <class Function, class... Arguments>
int forward(Function CudaAbi::*function, Arguments... arguments) {
  int code = ready();
  return remember(code != result::success ? code : (driver().*function)(arguments...));
}

CudaAbi::Address number(const void* address) {
  return reinterpret_cast<CudaAbi::Address>(address);
}

template <class To, class From>
To handle(From* from) {
  return reinterpret_cast<To>(from);
}

int allocation(CudaAbi::Address* made, int code, void** address) {
  if (code == result::success) *address = reinterpret_cast<void*>(*made);
  return code;
}

}  // namespace

extern "C" {

#define SHIM __attribute__((visibility("default")))

#if FAIRLEAD_SHIM_ROCM >= 6
SHIM int hipGetDevicePropertiesR0600(void*, int) {
  return remember(result::not_supported);
}
SHIM int hipPointerSetAttribute(const void* value, int attribute, void* address) {
  return forward(&CudaAbi::set_pointer_attribute, value, attribute, number(address));
}
#endif

SHIM int hipInit(unsigned) {
  return remember(driver().state);
}
SHIM int hipDriverGetVersion(int* version) {
  return forward(&CudaAbi::driver_version, version);
}
SHIM const char* hipGetErrorName(int code) {
  const char* name = nullptr;
  if (driver().error_name) driver().error_name(code, &name);
  return name;
}
SHIM const char* hipGetErrorString(int code) {
  const char* text = nullptr;
  if (driver().error_string) driver().error_string(code, &text);
  return text ? text : "no CUDA driver";
}
SHIM int hipGetLastError() {
  int code = last_error;
  last_error = result::success;
  return code;
}

SHIM int hipGetDeviceCount(int* count) {
  Driver& cuda = driver();
  return remember(cuda.state != result::success ? cuda.state : cuda.device_count(count));
}
SHIM int hipDeviceGet(int* device, int ordinal) {
  return forward(&CudaAbi::device_get, device, ordinal);
}
SHIM int hipDeviceGetName(char* name, int length, int device) {
  return forward(&CudaAbi::device_name, name, length, device);
}
SHIM int hipDeviceGetUuid(HipAbi::Uuid* uuid, int device) {
  return forward(&CudaAbi::device_uuid, reinterpret_cast<CudaAbi::Uuid*>(uuid), device);
}
SHIM int hipDeviceGetPCIBusId(char* name, int length, int device) {
  return forward(&CudaAbi::device_pci, name, length, device);
}
SHIM int hipDeviceTotalMem(size_t* bytes, int device) {
  return forward(&CudaAbi::device_memory, bytes, device);
}
SHIM int hipDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute == HipAbi::device_multiprocessors) {
    return forward(&CudaAbi::device_attribute, value, int{CudaAbi::device_multiprocessors}, device);
  }
  if (attribute != HipAbi::device_is_large_bar) return remember(result::invalid_value);
  *value = 0;  // the CPU cannot reach an NVIDIA GPU's memory
  return result::success;
}
SHIM int hipDeviceCanAccessPeer(int* possible, int device, int peer) {
  return forward(&CudaAbi::can_access_peer, possible, device, peer);
}
SHIM int hipGetDevice(int* device) {
  *device = current_device;
  return remember(driver().state);
}
SHIM int hipSetDevice(int device) {
  int count = 0;
  if (int code = hipGetDeviceCount(&count)) return code;
  if (device < 0 || device >= count) return remember(result::invalid_device);
  current_device = device;
  return result::success;
}
SHIM int hipDeviceSynchronize() {
  return forward(&CudaAbi::device_synchronize);
}
SHIM int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  CudaAbi::Context context = nullptr;
  int code = forward(&CudaAbi::primary_retain, &context, peer);
  return code ? code : forward(&CudaAbi::enable_peer, context, flags);
}

SHIM int hipPointerGetAttributes(HipAbi::PointerAttributes* attributes, const void* address) {
  constexpr auto types = FAIRLEAD_SHIM_ROCM >= 6 ? HipAbi::rocm_6_types : HipAbi::rocm_5_types;
  int type = 0, device = 0;
  unsigned managed = 0;
  int names[] = {CudaAbi::pointer_memory_type, CudaAbi::pointer_is_managed, CudaAbi::pointer_device_ordinal};
  void* values[] = {&type, &managed, &device};
  int code =
      forward(&CudaAbi::pointer_attributes, unsigned(std::size(names)), +names, +values, number(address));
  if (code) return code;
  constexpr size_t known = offsetof(HipAbi::PointerAttributes, room);  // what the real one writes
  std::memset(attributes, 0, known);
  if (type == 0) return FAIRLEAD_SHIM_ROCM >= 6 ? result::success : remember(result::invalid_value);
  void* same = const_cast<void*>(address);
  attributes->device = device;
  attributes->device_pointer = same;
  attributes->is_managed = managed != 0;
  if (managed) {
    attributes->type = HipAbi::memory_managed;
  } else {
    attributes->type = type == CudaAbi::memory_device ? types.device : types.host;
  }
  if (managed || type == CudaAbi::memory_host) attributes->host_pointer = same;
  return result::success;
}
SHIM int hipPointerGetAttribute(void* value, int attribute, void* address) {
  return forward(&CudaAbi::pointer_attribute, value, attribute, number(address));
}
SHIM int hipMemGetAddressRange(void** base, size_t* size, void* address) {
  return forward(&CudaAbi::address_range, reinterpret_cast<CudaAbi::Address*>(base), size, number(address));
}
SHIM int hipMalloc(void** address, size_t bytes) {
  CudaAbi::Address made = 0;
  return allocation(&made, forward(&CudaAbi::allocate, &made, bytes), address);
}
SHIM int hipMallocManaged(void** address, size_t bytes, unsigned flags) {
  CudaAbi::Address made = 0;
  return allocation(&made, forward(&CudaAbi::allocate_managed, &made, bytes, flags), address);
}
SHIM int hipFree(void* address) {
  return address ? forward(&CudaAbi::free, number(address)) : result::success;
}
SHIM int hipHostMalloc(void** address, size_t bytes, unsigned flags) {
  return forward(&CudaAbi::allocate_pinned, address, bytes, flags);
}
SHIM int hipHostFree(void* address) {
  return forward(&CudaAbi::free_pinned, address);
}
SHIM int hipHostRegister(void* address, size_t bytes, unsigned flags) {
  return forward(&CudaAbi::register_host, address, bytes, flags);
}
SHIM int hipHostUnregister(void* address) {
  return forward(&CudaAbi::unregister_host, address);
}
SHIM int hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return forward(&CudaAbi::memory_info, free_bytes, total_bytes);
}

#if FAIRLEAD_SHIM_ROCM >= 6
using fairlead::device::AllocationProperties;
using fairlead::device::MemoryAccess;

SHIM int hipMallocAsync(void** address, size_t bytes, HipAbi::Stream stream) {
  CudaAbi::Address made = 0;
  return allocation(&made, forward(&CudaAbi::allocate_async, &made, bytes, handle<CudaAbi::Stream>(stream)),
                    address);
}
SHIM int hipMemAddressReserve(void** address, size_t bytes, size_t alignment, void* hint,
                              unsigned long long flags) {
  CudaAbi::Address made = 0;
  return allocation(&made, forward(&CudaAbi::address_reserve, &made, bytes, alignment, number(hint), flags),
                    address);
}
SHIM int hipMemAddressFree(void* address, size_t bytes) {
  return forward(&CudaAbi::address_free, number(address), bytes);
}
SHIM int hipMemGetAllocationGranularity(size_t* granularity, const AllocationProperties* properties,
                                        int option) {
  return forward(&CudaAbi::memory_granularity, granularity, properties, option);
}
SHIM int hipMemCreate(HipAbi::MemoryHandle* made, size_t bytes, const AllocationProperties* properties,
                      unsigned long long flags) {
  return forward(&CudaAbi::memory_create, reinterpret_cast<CudaAbi::MemoryHandle*>(made), bytes, properties,
                 flags);
}
SHIM int hipMemRelease(HipAbi::MemoryHandle memory) {
  return forward(&CudaAbi::memory_release, reinterpret_cast<CudaAbi::MemoryHandle>(memory));
}
SHIM int hipMemRetainAllocationHandle(HipAbi::MemoryHandle* memory, void* address) {
  return forward(&CudaAbi::memory_retain, reinterpret_cast<CudaAbi::MemoryHandle*>(memory), address);
}
SHIM int hipMemMap(void* address, size_t bytes, size_t offset, HipAbi::MemoryHandle memory,
                   unsigned long long flags) {
  return forward(&CudaAbi::memory_map, number(address), bytes, offset,
                 reinterpret_cast<CudaAbi::MemoryHandle>(memory), flags);
}
SHIM int hipMemUnmap(void* address, size_t bytes) {
  return forward(&CudaAbi::memory_unmap, number(address), bytes);
}
SHIM int hipMemSetAccess(void* address, size_t bytes, const MemoryAccess* access, size_t count) {
  return forward(&CudaAbi::memory_access, number(address), bytes, access, count);
}
SHIM int hipMemExportToShareableHandle(void* shared, HipAbi::MemoryHandle memory, int type,
                                       unsigned long long flags) {
  return forward(&CudaAbi::memory_export, shared, reinterpret_cast<CudaAbi::MemoryHandle>(memory), type,
                 flags);
}
// Before 7.1, HIP wants a pointer to the file descriptor where CUDA wants its value.
SHIM int hipMemImportFromShareableHandle(HipAbi::MemoryHandle* memory, void* shared, int type) {
  void* value = reinterpret_cast<void*>(static_cast<intptr_t>(*static_cast<int*>(shared)));
  return forward(&CudaAbi::memory_import, reinterpret_cast<CudaAbi::MemoryHandle*>(memory), value, type);
}
#endif

SHIM int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return forward(&CudaAbi::stream_priorities, least, greatest);
}
SHIM int hipStreamCreateWithPriority(HipAbi::Stream* stream, unsigned flags, int priority) {
  return forward(&CudaAbi::stream_create, reinterpret_cast<CudaAbi::Stream*>(stream), flags, priority);
}
SHIM int hipStreamDestroy(HipAbi::Stream stream) {
  return forward(&CudaAbi::stream_destroy, handle<CudaAbi::Stream>(stream));
}
SHIM int hipStreamSynchronize(HipAbi::Stream stream) {
  return forward(&CudaAbi::stream_synchronize, handle<CudaAbi::Stream>(stream));
}
SHIM int hipStreamQuery(HipAbi::Stream stream) {
  return forward(&CudaAbi::stream_query, handle<CudaAbi::Stream>(stream));
}
SHIM int hipStreamIsCapturing(HipAbi::Stream stream, int* status) {
  return forward(&CudaAbi::stream_capturing, handle<CudaAbi::Stream>(stream), status);
}
SHIM int hipStreamWaitEvent(HipAbi::Stream stream, HipAbi::Event event, unsigned flags) {
  return forward(&CudaAbi::stream_wait_event, handle<CudaAbi::Stream>(stream), handle<CudaAbi::Event>(event),
                 flags);
}
SHIM int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, HipAbi::Stream stream) {
  if (kind != HipAbi::copy_default) return remember(result::invalid_value);
  return forward(&CudaAbi::copy, number(to), number(from), bytes, handle<CudaAbi::Stream>(stream));
}
SHIM int hipMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                          size_t height, int kind, HipAbi::Stream stream) {
  if (kind != HipAbi::copy_default) return remember(result::invalid_value);
  CudaAbi::Copy2d copy{};
  copy.from.memory_type = copy.to.memory_type = CudaAbi::memory_unified;
  copy.from.device = number(from);
  copy.from.pitch = from_pitch;
  copy.to.device = number(to);
  copy.to.pitch = to_pitch;
  copy.width = width;
  copy.height = height;
  return forward(&CudaAbi::copy_2d, &copy, handle<CudaAbi::Stream>(stream));
}
SHIM int hipMemsetD8Async(void* to, unsigned char byte, size_t bytes, HipAbi::Stream stream) {
  return forward(&CudaAbi::fill, number(to), byte, bytes, handle<CudaAbi::Stream>(stream));
}
SHIM int hipEventCreateWithFlags(HipAbi::Event* event, unsigned flags) {
  return forward(&CudaAbi::event_create, reinterpret_cast<CudaAbi::Event*>(event), flags);
}
SHIM int hipEventDestroy(HipAbi::Event event) {
  return forward(&CudaAbi::event_destroy, handle<CudaAbi::Event>(event));
}
SHIM int hipEventRecord(HipAbi::Event event, HipAbi::Stream stream) {
  return forward(&CudaAbi::event_record, handle<CudaAbi::Event>(event), handle<CudaAbi::Stream>(stream));
}
SHIM int hipEventQuery(HipAbi::Event event) {
  return forward(&CudaAbi::event_query, handle<CudaAbi::Event>(event));
}

SHIM int hipIpcGetMemHandle(HipAbi::IpcMemory* memory, void* base) {
  return forward(&CudaAbi::ipc_get, reinterpret_cast<CudaAbi::IpcMemory*>(memory), number(base));
}
SHIM int hipIpcOpenMemHandle(void** base, HipAbi::IpcMemory memory, unsigned flags) {
  // Each release accepts one value only.
  if (flags != (FAIRLEAD_SHIM_ROCM >= 6 ? 1 : 0)) return remember(result::invalid_value);
  CudaAbi::IpcMemory theirs;
  std::memcpy(&theirs, &memory, sizeof theirs);
  CudaAbi::Address mapped = 0;
  return allocation(&mapped, forward(&CudaAbi::ipc_open, &mapped, theirs, CudaAbi::ipc_lazy_peer_access),
                    base);
}
SHIM int hipIpcCloseMemHandle(void* base) {
  return forward(&CudaAbi::ipc_close, number(base));
}

SHIM int hipModuleLoadData(HipAbi::Module* module, const void* image) {
  if (std::memcmp(image, "\177ELF", 4) == 0) return remember(result::no_binary_for_gpu);
  return forward(&CudaAbi::module_load, reinterpret_cast<CudaAbi::Module*>(module), image);
}
SHIM int hipModuleGetFunction(HipAbi::Function* function, HipAbi::Module module, const char* name) {
  return forward(&CudaAbi::module_function, reinterpret_cast<CudaAbi::Function*>(function),
                 handle<CudaAbi::Module>(module), name);
}
SHIM int hipModuleLaunchKernel(HipAbi::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                               HipAbi::Stream stream, void** arguments, void** extra) {
  return forward(&CudaAbi::launch, handle<CudaAbi::Function>(function), grid_x, grid_y, grid_z, block_x,
                 block_y, block_z, shared_bytes, handle<CudaAbi::Stream>(stream), arguments, extra);
}

}  // extern "C"
