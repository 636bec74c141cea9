// SPDX-License-Identifier: Apache-2.0
//
// Proves at compile time that src/device/cuda/abi.h describes the driver that <cuda.h> describes: every
// function, every constant, every struct. Compiled where the header is found; there is nothing to run.

#include <cuda.h>

#include "device/cuda/abi.h"
#include "device/runtime.h"
#include "same_abi.h"

// Headers of CUDA 13 declare only its successor; the driver has both.
extern "C" CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                                      const CUgraphNode**, size_t*);

namespace fairlead::device {
namespace {

using test::SameFunction;

struct Functions : CudaAbi {
#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...) \
  static_assert(SameFunction<__VA_ARGS__, decltype(::name)>::value, #name " has another signature");
// Optional ones are in the headers of the newest release we know, perhaps not in these.
#if CUDA_VERSION >= 13000
#define FAIRLEAD_DRIVER_OPTIONAL FAIRLEAD_DRIVER_FUNCTION
#else
#define FAIRLEAD_DRIVER_OPTIONAL(member, name, ...)
#endif
#include "device/cuda/functions.def"
#undef FAIRLEAD_DRIVER_FUNCTION
#undef FAIRLEAD_DRIVER_OPTIONAL
};

#if CUDA_VERSION >= 13000
static_assert(CudaAbi::source_order_stream == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
static_assert(sizeof(CudaAbi::CopyAttributes) == sizeof(CUmemcpyAttributes));
static_assert(offsetof(CudaAbi::CopyAttributes, flags) == offsetof(CUmemcpyAttributes, flags));
static_assert(sizeof(CudaAbi::KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
static_assert(offsetof(CudaAbi::KernelNode, block) == offsetof(CUDA_KERNEL_NODE_PARAMS, blockDimX));
static_assert(offsetof(CudaAbi::KernelNode, arguments) == offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
static_assert(offsetof(CudaAbi::KernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
static_assert(sizeof(CudaAbi::NodeAttribute) == sizeof(CUkernelNodeAttrValue));
static_assert(offsetof(CUkernelNodeAttrValue, priority) == 0);
static_assert(CudaAbi::attribute_priority == CU_KERNEL_NODE_ATTRIBUTE_PRIORITY);
#endif

static_assert(driver_result::success == CUDA_SUCCESS);
static_assert(driver_result::invalid_value == CUDA_ERROR_INVALID_VALUE);
static_assert(driver_result::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(driver_result::not_initialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(driver_result::deinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(driver_result::no_device == CUDA_ERROR_NO_DEVICE);
static_assert(driver_result::invalid_device == CUDA_ERROR_INVALID_DEVICE);
static_assert(driver_result::invalid_image == CUDA_ERROR_INVALID_IMAGE);
static_assert(driver_result::already_mapped == CUDA_ERROR_ALREADY_MAPPED);
static_assert(driver_result::no_binary_for_gpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(driver_result::invalid_kernel_file == CUDA_ERROR_INVALID_PTX);
static_assert(driver_result::shared_object_failed == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
static_assert(driver_result::peer_access_unsupported == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
static_assert(driver_result::invalid_handle == CUDA_ERROR_INVALID_HANDLE);
static_assert(driver_result::not_found == CUDA_ERROR_NOT_FOUND);
static_assert(driver_result::stream_capture_unsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(driver_result::stream_capture_implicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(driver_result::not_ready == CUDA_ERROR_NOT_READY);
static_assert(driver_result::peer_access_already_enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(driver_result::peer_access_not_enabled == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
static_assert(driver_result::host_memory_already_registered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(driver_result::not_permitted == CUDA_ERROR_NOT_PERMITTED);
static_assert(driver_result::not_supported == CUDA_ERROR_NOT_SUPPORTED);

static_assert(driver_flag::managed_attach_global == CU_MEM_ATTACH_GLOBAL);
static_assert(driver_flag::pinned_portable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(driver_flag::register_portable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(driver_flag::stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(driver_flag::event_disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(driver_flag::write_value_default == CU_STREAM_WRITE_VALUE_DEFAULT);
static_assert(driver_flag::wait_value_geq == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(CudaAbi::peer_atomics == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
using Word = CUstreamBatchMemOpParams;
static_assert(sizeof(CudaAbi::WordOperation) == sizeof(Word));
static_assert(offsetof(CudaAbi::WordOperation, address) == offsetof(Word, waitValue.address));
static_assert(offsetof(CudaAbi::WordOperation, value) == offsetof(Word, writeValue.value));
static_assert(offsetof(CudaAbi::WordOperation, flags) == offsetof(Word, writeValue.flags));
static_assert(CudaAbi::word_wait == CU_STREAM_MEM_OP_WAIT_VALUE_32);
static_assert(CudaAbi::word_write == CU_STREAM_MEM_OP_WRITE_VALUE_32);
static_assert(static_cast<int>(CaptureMode::global) == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(static_cast<int>(CaptureMode::thread) == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(static_cast<int>(CaptureMode::relaxed) == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(CudaAbi::object_ends_unseen == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
static_assert(CudaAbi::object_is_given == CU_GRAPH_USER_OBJECT_MOVE);
static_assert(driver_flag::capture_none == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(driver_flag::capture_active == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(driver_flag::pointer_sync_memops == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
static_assert(driver_flag::pointer_buffer_id == CU_POINTER_ATTRIBUTE_BUFFER_ID);

static_assert(driver_flag::allocation_pinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(driver_flag::handle_file_descriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
#if CUDA_VERSION >= 12030
static_assert(CudaAbi::handle_for_other_nodes == CU_MEM_HANDLE_TYPE_FABRIC);
static_assert(sizeof(CUmemFabricHandle) == sizeof(IpcHandle));
#endif
static_assert(driver_flag::location_device == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(driver_flag::access_read_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(driver_flag::granularity_minimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);

static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(AllocationProperties, handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, for_windows) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(MemoryLocation, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(MemoryAccess) == sizeof(CUmemAccessDesc));
static_assert(offsetof(MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags));

static_assert(CudaAbi::memory_host == CU_MEMORYTYPE_HOST);
static_assert(CudaAbi::memory_device == CU_MEMORYTYPE_DEVICE);
static_assert(CudaAbi::memory_unified == CU_MEMORYTYPE_UNIFIED);
static_assert(CudaAbi::pointer_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(CudaAbi::pointer_host_pointer == CU_POINTER_ATTRIBUTE_HOST_POINTER);
static_assert(CudaAbi::device_reaches_host == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
static_assert(CudaAbi::device_by_host_tables ==
              CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
static_assert(CudaAbi::pointer_is_managed == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(CudaAbi::pointer_device_ordinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(CudaAbi::pointer_legacy_ipc_capable == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
static_assert(CudaAbi::pointer_range_start == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(CudaAbi::pointer_range_size == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(CudaAbi::pointer_handle_types == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
#if CUDA_VERSION >= 13000  // the release whose header was at hand
static_assert(CudaAbi::pointer_block_id == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);
#endif
static_assert(CudaAbi::pointer_mempool == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
static_assert(CudaAbi::device_multiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(CudaAbi::device_capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(CudaAbi::device_capability_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
#if CUDA_VERSION >= 11070
static_assert(CudaAbi::device_has_words == CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR);
#endif
static_assert(CudaAbi::ipc_lazy_peer_access == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
#if CUDA_VERSION >= 12010
static_assert(CudaAbi::context_sync_memops == CU_CTX_SYNC_MEMOPS);
#endif

static_assert(sizeof(CudaAbi::Address) == sizeof(CUdeviceptr));
static_assert(sizeof(CudaAbi::Uuid) == sizeof(CUuuid));
static_assert(sizeof(CudaAbi::IpcMemory) == CU_IPC_HANDLE_SIZE);

using Copy = CudaAbi::Copy2d;
using Side = Copy::Side;
static_assert(sizeof(Copy) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(Copy, from) + offsetof(Side, x) == offsetof(CUDA_MEMCPY2D, srcXInBytes));
static_assert(offsetof(Copy, from) + offsetof(Side, y) == offsetof(CUDA_MEMCPY2D, srcY));
static_assert(offsetof(Copy, from) + offsetof(Side, memory_type) == offsetof(CUDA_MEMCPY2D, srcMemoryType));
static_assert(offsetof(Copy, from) + offsetof(Side, host) == offsetof(CUDA_MEMCPY2D, srcHost));
static_assert(offsetof(Copy, from) + offsetof(Side, device) == offsetof(CUDA_MEMCPY2D, srcDevice));
static_assert(offsetof(Copy, from) + offsetof(Side, array) == offsetof(CUDA_MEMCPY2D, srcArray));
static_assert(offsetof(Copy, from) + offsetof(Side, pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(Copy, to) + offsetof(Side, x) == offsetof(CUDA_MEMCPY2D, dstXInBytes));
static_assert(offsetof(Copy, to) + offsetof(Side, y) == offsetof(CUDA_MEMCPY2D, dstY));
static_assert(offsetof(Copy, to) + offsetof(Side, memory_type) == offsetof(CUDA_MEMCPY2D, dstMemoryType));
static_assert(offsetof(Copy, to) + offsetof(Side, host) == offsetof(CUDA_MEMCPY2D, dstHost));
static_assert(offsetof(Copy, to) + offsetof(Side, device) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(Copy, to) + offsetof(Side, array) == offsetof(CUDA_MEMCPY2D, dstArray));
static_assert(offsetof(Copy, to) + offsetof(Side, pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(offsetof(Copy, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(offsetof(Copy, height) == offsetof(CUDA_MEMCPY2D, Height));

}  // namespace
}  // namespace fairlead::device
