// SPDX-License-Identifier: Apache-2.0
//
// Proves at compile time that src/device/hip/abi.h describes the runtime that <hip/hip_runtime_api.h>
// describes, from ROCm 5 on. Compiled where the header is found; there is nothing to run.

#define __HIP_PLATFORM_AMD__ 1
#define __HIP_PLATFORM_HCC__ 1           // what ROCm 5 calls it
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1  // templates that would make some names ambiguous
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>

#include "device/hip/abi.h"
#include "device/runtime.h"
#include "same_abi.h"

namespace fairlead::device {

// The one of C; from ROCm 6 on, C++ has overloads of it that nothing switches off.
hipError_t hipMallocAsync(void**, size_t, hipStream_t);

namespace {

using test::SameFunction;
#if HIP_VERSION_MAJOR >= 6
[[maybe_unused]] constexpr decltype(&hipMallocAsync) is_theirs = ::hipMallocAsync;
#endif

struct Functions : HipAbi {
#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...) \
  static_assert(SameFunction<__VA_ARGS__, decltype(name)>::value, #name " has another signature");
#if HIP_VERSION_MAJOR >= 6
#define FAIRLEAD_DRIVER_OPTIONAL FAIRLEAD_DRIVER_FUNCTION
#else
#define FAIRLEAD_DRIVER_OPTIONAL(member, name, ...)
#endif
#include "device/hip/functions.def"
#undef FAIRLEAD_DRIVER_FUNCTION
#undef FAIRLEAD_DRIVER_OPTIONAL
};

static_assert(driver_result::success == hipSuccess);
static_assert(driver_result::invalid_value == hipErrorInvalidValue);
static_assert(driver_result::out_of_memory == hipErrorOutOfMemory);
static_assert(driver_result::not_initialized == hipErrorNotInitialized);
static_assert(driver_result::deinitialized == hipErrorDeinitialized);
static_assert(driver_result::no_device == hipErrorNoDevice);
static_assert(driver_result::invalid_device == hipErrorInvalidDevice);
static_assert(driver_result::invalid_image == hipErrorInvalidImage);
static_assert(driver_result::already_mapped == hipErrorAlreadyMapped);
static_assert(driver_result::no_binary_for_gpu == hipErrorNoBinaryForGpu);
static_assert(driver_result::invalid_kernel_file == hipErrorInvalidKernelFile);
static_assert(driver_result::shared_object_failed == hipErrorSharedObjectInitFailed);
static_assert(driver_result::peer_access_unsupported == hipErrorPeerAccessUnsupported);
static_assert(driver_result::invalid_handle == hipErrorInvalidHandle);
static_assert(driver_result::not_found == hipErrorNotFound);
static_assert(driver_result::stream_capture_unsupported == hipErrorStreamCaptureUnsupported);
static_assert(driver_result::stream_capture_implicit == hipErrorStreamCaptureImplicit);
static_assert(driver_result::not_ready == hipErrorNotReady);
static_assert(driver_result::peer_access_already_enabled == hipErrorPeerAccessAlreadyEnabled);
static_assert(driver_result::peer_access_not_enabled == hipErrorPeerAccessNotEnabled);
static_assert(driver_result::host_memory_already_registered == hipErrorHostMemoryAlreadyRegistered);
static_assert(driver_result::not_supported == hipErrorNotSupported);

static_assert(driver_flag::managed_attach_global == hipMemAttachGlobal);
static_assert(driver_flag::pinned_portable == hipHostMallocPortable);
static_assert(HipAbi::pinned_coherent == hipHostMallocCoherent);
static_assert(driver_flag::register_portable == hipHostRegisterPortable);
static_assert(driver_flag::stream_non_blocking == hipStreamNonBlocking);
static_assert(driver_flag::event_disable_timing == hipEventDisableTiming);
static_assert(driver_flag::wait_value_geq == hipStreamWaitValueGte);
static_assert(HipAbi::fine_grained == hipDeviceMallocFinegrained);
static_assert(HipAbi::peer_atomics == hipDevP2PAttrNativeAtomicSupported);
static_assert(static_cast<int>(CaptureMode::global) == hipStreamCaptureModeGlobal);
static_assert(static_cast<int>(CaptureMode::thread) == hipStreamCaptureModeThreadLocal);
static_assert(static_cast<int>(CaptureMode::relaxed) == hipStreamCaptureModeRelaxed);
static_assert(driver_flag::capture_none == hipStreamCaptureStatusNone);
static_assert(driver_flag::capture_active == hipStreamCaptureStatusActive);
static_assert(HipAbi::device_has_words == hipDeviceAttributeCanUseStreamWaitValue);
static_assert(driver_flag::pointer_sync_memops == HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS);
static_assert(driver_flag::pointer_buffer_id == HIP_POINTER_ATTRIBUTE_BUFFER_ID);

#if HIP_VERSION_MAJOR >= 6
static_assert(driver_flag::allocation_pinned == hipMemAllocationTypePinned);
static_assert(driver_flag::handle_file_descriptor == hipMemHandleTypePosixFileDescriptor);
static_assert(driver_flag::location_device == hipMemLocationTypeDevice);
static_assert(driver_flag::access_read_write == hipMemAccessFlagsProtReadWrite);
static_assert(driver_flag::granularity_minimum == hipMemAllocationGranularityMinimum);

static_assert(sizeof(AllocationProperties) == sizeof(hipMemAllocationProp));
static_assert(offsetof(AllocationProperties, type) == offsetof(hipMemAllocationProp, type));
static_assert(offsetof(AllocationProperties, handle_types) ==
              offsetof(hipMemAllocationProp, requestedHandleType));
static_assert(offsetof(AllocationProperties, location) == offsetof(hipMemAllocationProp, location));
static_assert(offsetof(AllocationProperties, for_windows) ==
              offsetof(hipMemAllocationProp, win32HandleMetaData));
static_assert(sizeof(MemoryAccess) == sizeof(hipMemAccessDesc));
static_assert(offsetof(MemoryAccess, flags) == offsetof(hipMemAccessDesc, flags));
#endif

static_assert(HipAbi::copy_default == hipMemcpyDefault);
static_assert(HipAbi::device_multiprocessors == hipDeviceAttributeMultiprocessorCount);
static_assert(HipAbi::device_is_integrated == hipDeviceAttributeIntegrated);
static_assert(HipAbi::device_reaches_host == hipDeviceAttributePageableMemoryAccess);
static_assert(HipAbi::device_is_large_bar == hipDeviceAttributeIsLargeBar);
static_assert(hipIpcMemLazyEnablePeerAccess == 0 || hipIpcMemLazyEnablePeerAccess == 1);

#if HIP_VERSION_MAJOR >= 6
constexpr HipAbi::MemoryTypes memory_types = HipAbi::rocm_6_types;
static_assert(HipAbi::memory_managed == hipMemoryTypeManaged);
#else
constexpr HipAbi::MemoryTypes memory_types = HipAbi::rocm_5_types;
static_assert(HipAbi::memory_managed == hipMemoryTypeUnified);
#endif
static_assert(memory_types.host == hipMemoryTypeHost);
static_assert(memory_types.device == hipMemoryTypeDevice);

static_assert(sizeof(HipAbi::Address) == sizeof(hipDeviceptr_t));
static_assert(sizeof(HipAbi::Uuid) == sizeof(hipUUID));
static_assert(sizeof(HipAbi::IpcMemory) == HIP_IPC_HANDLE_SIZE);

using Ours = HipAbi::PointerAttributes;
using Theirs = hipPointerAttribute_t;
static_assert(offsetof(Ours, room) >= offsetof(Theirs, allocationFlags) + sizeof(Theirs::allocationFlags));
#if HIP_VERSION_MAJOR >= 6
static_assert(offsetof(Ours, type) == offsetof(Theirs, type));
#else
static_assert(offsetof(Ours, type) == offsetof(Theirs, memoryType));
#endif
static_assert(offsetof(Ours, device) == offsetof(Theirs, device));
static_assert(offsetof(Ours, device_pointer) == offsetof(Theirs, devicePointer));
static_assert(offsetof(Ours, host_pointer) == offsetof(Theirs, hostPointer));
static_assert(offsetof(Ours, is_managed) == offsetof(Theirs, isManaged));
static_assert(offsetof(Ours, allocation_flags) == offsetof(Theirs, allocationFlags));

}  // namespace
}  // namespace fairlead::device
