// SPDX-License-Identifier: Apache-2.0
//
// One source for NVIDIA GPUs, AMD GPUs and Fairlead's simulated GPU: gpuX is cudaX or hipX. Copy it into your own
// program, which then does not need Fairlead; omit the simulated GPU if you do not want it.
//
//   CUDA:       nvcc -x cu -O3 -ccbin mpicxx program.cpp
//   HIP:        OMPI_CXX=hipcc mpicxx -x hip -O3 program.cpp        (MPICH_CXX=hipcc for MPICH)
//   simulated:  any C++20 compiler, linked with fairlead::device
//
// Sources without kernels may be compiled by the plain C++ compiler, with -DGPU_CUDA or -DGPU_HIP.

#pragma once

#include <cstdio>
#include <cstdlib>

#if defined(__HIP__) || defined(GPU_HIP)
#include <hip/hip_runtime.h>
#define GPU_NAME(name) hip##name
#define gpuProvider "HIP"
#define gpuStreamType "hipStream_t"
#define gpuMallocHost hipHostMalloc
#define gpuFreeHost hipHostFree
#elif defined(__CUDACC__) || defined(GPU_CUDA)
#include <cuda_runtime.h>
#define GPU_NAME(name) cuda##name
#define gpuProvider "CUDA"
#define gpuStreamType "cudaStream_t"
#define gpuMallocHost cudaMallocHost
#define gpuFreeHost cudaFreeHost
#else
#include "gpu_sim.h"
#endif

#ifdef GPU_NAME
#define gpuError_t GPU_NAME(Error_t)
#define gpuSuccess GPU_NAME(Success)
#define gpuGetErrorString GPU_NAME(GetErrorString)
#define gpuGetLastError GPU_NAME(GetLastError)
#define gpuGetDeviceCount GPU_NAME(GetDeviceCount)
#define gpuSetDevice GPU_NAME(SetDevice)
#define gpuDeviceGetPCIBusId GPU_NAME(DeviceGetPCIBusId)
#define gpuDeviceSynchronize GPU_NAME(DeviceSynchronize)
#define gpuMalloc GPU_NAME(Malloc)
#define gpuMallocManaged GPU_NAME(MallocManaged)
#define gpuFree GPU_NAME(Free)
#define gpuMemset GPU_NAME(Memset)
#define gpuMemcpy GPU_NAME(Memcpy)
#define gpuMemcpyHostToDevice GPU_NAME(MemcpyHostToDevice)
#define gpuMemcpyDeviceToHost GPU_NAME(MemcpyDeviceToHost)
#define gpuMemcpyDeviceToDevice GPU_NAME(MemcpyDeviceToDevice)
#define gpuStream_t GPU_NAME(Stream_t)
#define gpuStreamCreate GPU_NAME(StreamCreate)
#define gpuStreamDestroy GPU_NAME(StreamDestroy)
#define gpuStreamBeginCapture GPU_NAME(StreamBeginCapture)
#define gpuStreamCaptureModeThreadLocal GPU_NAME(StreamCaptureModeThreadLocal)
#define gpuStreamEndCapture GPU_NAME(StreamEndCapture)
#define gpuGraph_t GPU_NAME(Graph_t)
#define gpuGraphDestroy GPU_NAME(GraphDestroy)
#define gpuGraphExec_t GPU_NAME(GraphExec_t)
#define gpuGraphInstantiate GPU_NAME(GraphInstantiateWithFlags)
#define gpuGraphLaunch GPU_NAME(GraphLaunch)
#define gpuGraphExecDestroy GPU_NAME(GraphExecDestroy)

// What MPIX_Stream_create() takes as "value", of the type that gpuStreamType names.
#define gpuStreamNative(stream) (stream)

// Returns at once, like kernel<<<grid, block, 0, stream>>>(...); gpuDeviceSynchronize() waits.
#define gpuLaunchOn(stream, kernel, grid, block, ...)      \
  do {                                                     \
    kernel<<<(grid), (block), 0, (stream)>>>(__VA_ARGS__); \
    gpuCheck(gpuGetLastError());                           \
  } while (0)
#endif

// On the default stream, with which streams of gpuStreamCreate() synchronise.
#define gpuLaunch(kernel, grid, block, ...) gpuLaunchOn(nullptr, kernel, grid, block, __VA_ARGS__)

// Ends the program, and with it the job, if a GPU call fails.
#define gpuCheck(call) gpu_check((call), #call, __FILE__, __LINE__)

inline void gpu_check(gpuError_t error, const char* call, const char* file, int line) {
  if (error == gpuSuccess) return;
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, gpuGetErrorString(error));
  std::exit(EXIT_FAILURE);
}
