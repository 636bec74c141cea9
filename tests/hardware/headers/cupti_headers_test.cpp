// SPDX-License-Identifier: Apache-2.0
//
// Proves at compile time that src/device/program/cupti_abi.h describes the CUPTI that <cupti.h> describes.
// Compiled where the header is found; there is nothing to run.

#include <cuda.h>
#include <cupti.h>

#include <cstddef>

#include "device/program/cupti_abi.h"

namespace fairlead::device::program::cupti {
namespace {

#define FAIRLEAD_CUPTI_CALL(function, number, per_thread, handler) \
  static_assert(CUPTI_DRIVER_TRACE_CBID_##function == number);
#include "device/program/cupti_calls.def"
#undef FAIRLEAD_CUPTI_CALL
static_assert(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz == 442);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz == 653);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz == 418);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz == 440);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuEventRecord_ptsz == 441);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz == 436);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2_ptds == 403);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2_ptds == 402);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2_ptds == 405);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2_ptds == 406);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2_ptds == 407);

static_assert(site_enter == CUPTI_API_ENTER && site_exit == CUPTI_API_EXIT &&
              domain_driver == CUPTI_CB_DOMAIN_DRIVER_API);

// One member is at the place of the vendor's.
#define SAME(Ours, member, Theirs, theirs)                            \
  static_assert(offsetof(Ours, member) == offsetof(Theirs, theirs) && \
                sizeof(Ours::member) == sizeof(Theirs::theirs))
SAME(CallbackData, site, CUpti_CallbackData, callbackSite);
SAME(CallbackData, parameters, CUpti_CallbackData, functionParams);
SAME(CallbackData, result, CUpti_CallbackData, functionReturnValue);
SAME(CallbackData, symbol, CUpti_CallbackData, symbolName);
SAME(CallbackData, context, CUpti_CallbackData, context);
SAME(Launch, function, cuLaunchKernel_params, f);
SAME(Launch, stream, cuLaunchKernel_params, hStream);
SAME(Launch, parameters, cuLaunchKernel_params, kernelParams);
SAME(Launch, packed, cuLaunchKernel_params, extra);
SAME(Launch, stream, cuLaunchCooperativeKernel_params, hStream);
SAME(Launch, parameters, cuLaunchCooperativeKernel_params, kernelParams);
SAME(LaunchEx, config, cuLaunchKernelEx_params, config);
SAME(LaunchEx, parameters, cuLaunchKernelEx_params, kernelParams);
SAME(LaunchEx, packed, cuLaunchKernelEx_params, extra);
SAME(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME(CopyAsync, from, cuMemcpyAsync_params, src);
SAME(CopyAsync, stream, cuMemcpyAsync_params, hStream);
SAME(CopyAsync, bytes, cuMemcpyHtoDAsync_v2_params, ByteCount);
SAME(CopyAsync, stream, cuMemcpyDtoHAsync_v2_params, hStream);
SAME(CopyAsync, stream, cuMemcpyDtoDAsync_v2_params, hStream);
SAME(PeerCopyAsync, from, cuMemcpyPeerAsync_params, srcDevice);
SAME(PeerCopyAsync, stream, cuMemcpyPeerAsync_params, hStream);
SAME(Copy2dAsync, copy, cuMemcpy2DAsync_v2_params, pCopy);
SAME(Copy2dAsync, stream, cuMemcpy2DAsync_v2_params, hStream);
SAME(FillAsync<unsigned char>, stream, cuMemsetD8Async_params, hStream);
SAME(FillAsync<unsigned short>, count, cuMemsetD16Async_params, N);
SAME(FillAsync<unsigned>, stream, cuMemsetD32Async_params, hStream);
SAME(Record, stream, cuEventRecord_params, hStream);
SAME(Record, stream, cuEventRecordWithFlags_params, hStream);
SAME(Wait, event, cuStreamWaitEvent_params, hEvent);
SAME(Create, flags, cuStreamCreate_params, Flags);
SAME(Create, flags, cuStreamCreateWithPriority_params, flags);
SAME(EndCapture, graph, cuStreamEndCapture_params, phGraph);
SAME(Instantiate, graph, cuGraphInstantiateWithFlags_params, hGraph);
SAME(Instantiate, graph, cuGraphInstantiateWithParams_params, hGraph);
SAME(Instantiate, graph, cuGraphInstantiate_v2_params, hGraph);
SAME(Update, graph, cuGraphExecUpdate_v2_params, hGraph);
SAME(OnGraph, graph, cuGraphDestroy_params, hGraph);
SAME(OnGraph, graph, cuGraphExecDestroy_params, hGraphExec);
SAME(OnStream, stream, cuStreamBeginCaptureToGraph_params, hStream);
SAME(OnStream, stream, cuStreamBatchMemOp_v2_params, stream);
SAME(OnStream, stream, cuStreamWriteValue64_v2_params, stream);
SAME(GraphLaunch, stream, cuGraphLaunch_params, hStream);
SAME(Free, stream, cuMemFreeAsync_params, hStream);
SAME(OnStream, stream, cuStreamSynchronize_params, hStream);
SAME(OnStream, stream, cuLaunchHostFunc_params, hStream);
SAME(OnStream, stream, cuStreamAddCallback_params, hStream);
SAME(OnStream, stream, cuStreamWriteValue32_params, stream);
SAME(OnStream, stream, cuStreamBeginCapture_v2_params, hStream);
SAME(OnEvent, event, cuEventSynchronize_params, hEvent);
SAME(OnEvent, event, cuEventDestroy_v2_params, hEvent);
#undef SAME
static_assert(sizeof(Copy2d) == sizeof(CUDA_MEMCPY2D) &&
              offsetof(Copy2d, to) == offsetof(CUDA_MEMCPY2D, dstXInBytes) &&
              offsetof(Copy2d, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));

}  // namespace
}  // namespace fairlead::device::program::cupti
