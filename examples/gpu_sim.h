// SPDX-License-Identifier: Apache-2.0
//
// The part of CUDA that gpu.h needs, for the simulated GPU: the C++ compiler compiles __global__ functions, and
// gpuLaunchOn() submits them to a stream of the simulated GPU. The stream's thread runs them later, one thread of the
// grid after the other, so there is no __syncthreads().
//
// Addresses of device memory cannot be dereferenced outside kernels, and in kernels only if they are
// parameters: the simulated GPU replaces a pointer parameter by an address that the CPU can access, but no pointer
// inside a struct or in memory.

#pragma once

#include <fairlead/device.h>
#include <fairlead/kernel.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define gpuProvider "SIM"
#define gpuStreamType "cudaStream_t"

using gpuError_t = int;
constexpr gpuError_t gpuSuccess = FAIRLEAD_DEVICE_SUCCESS;
using gpuStream_t = fairlead_device_stream*;
using gpuGraph_t = fairlead_device_graph*;
using gpuGraphExec_t = fairlead_device_graph*;  // the simulated GPU launches a graph as it is
enum gpuStreamCaptureMode { gpuStreamCaptureModeThreadLocal };
enum gpuMemcpyKind { gpuMemcpyHostToDevice, gpuMemcpyDeviceToHost, gpuMemcpyDeviceToDevice };

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
inline thread_local constinit dim3 gridDim, blockDim, blockIdx, threadIdx;

inline const char* gpuGetErrorString(gpuError_t) {
  return fairlead_device_error_text();
}
inline gpuError_t gpuGetDeviceCount(int* count) {
  *count = fairlead_device_count();
  if (*count && std::strcmp(fairlead_device_provider(), "sim") != 0) {
    std::fprintf(stderr, "this program was built for the simulated GPU: run it with FAIRLEAD_DEVICE=sim\n");
    *count = 0;
  }
  return gpuSuccess;
}
inline gpuError_t gpuSetDevice(int device) {
  return fairlead_device_set(device);
}
inline gpuError_t gpuDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, bytes, "%s", fairlead_device_pci(device));
  return gpuSuccess;
}
inline gpuError_t gpuDeviceSynchronize() {
  return fairlead_device_synchronize();
}
template <class T>
gpuError_t gpuMalloc(T** address, size_t bytes) {
  return fairlead_device_malloc(reinterpret_cast<void**>(address), bytes);
}
template <class T>
gpuError_t gpuMallocManaged(T** address, size_t bytes) {
  return fairlead_device_malloc_managed(reinterpret_cast<void**>(address), bytes);
}
template <class T>
gpuError_t gpuMallocHost(T** address, size_t bytes) {
  return fairlead_device_malloc_host(reinterpret_cast<void**>(address), bytes);
}
inline gpuError_t gpuFree(void* address) {
  return fairlead_device_free(address);
}
inline gpuError_t gpuFreeHost(void* address) {
  return fairlead_device_free_host(address);
}
inline gpuError_t gpuMemset(void* address, int byte, size_t bytes) {
  return fairlead_device_fill(address, byte, bytes);
}
inline gpuError_t gpuMemcpy(void* to, const void* from, size_t bytes, gpuMemcpyKind) {
  return fairlead_device_copy(to, from, bytes);
}
inline gpuError_t gpuStreamCreate(gpuStream_t* stream) {
  return fairlead_device_stream_create(stream);
}
inline gpuError_t gpuStreamDestroy(gpuStream_t stream) {
  return fairlead_device_stream_destroy(stream);
}
inline void* gpuStreamNative(gpuStream_t stream) {
  return fairlead_device_stream_native(stream);
}
inline gpuError_t gpuStreamBeginCapture(gpuStream_t stream, gpuStreamCaptureMode) {
  return fairlead_device_capture_begin(stream);
}
inline gpuError_t gpuStreamEndCapture(gpuStream_t stream, gpuGraph_t* graph) {
  return fairlead_device_capture_end(stream, graph);
}
inline gpuError_t gpuGraphInstantiate(gpuGraphExec_t* executable, gpuGraph_t graph, unsigned long long) {
  *executable = graph;
  return gpuSuccess;
}
inline gpuError_t gpuGraphDestroy(gpuGraph_t) {
  return gpuSuccess;
}
inline gpuError_t gpuGraphLaunch(gpuGraphExec_t executable, gpuStream_t stream) {
  return fairlead_device_graph_launch(executable, stream);
}
inline gpuError_t gpuGraphExecDestroy(gpuGraphExec_t executable) {
  return fairlead_device_graph_destroy(executable);
}

namespace gpu_sim {

struct Shape {
  dim3 grid, block;
};

template <class Work>
void for_each(dim3 extent, dim3* place, Work work) {
  for (place->z = 0; place->z < extent.z; ++place->z)
    for (place->y = 0; place->y < extent.y; ++place->y)
      for (place->x = 0; place->x < extent.x; ++place->x) work();
}

template <auto kernel>
struct Kernel;

template <class... Types, void (*kernel)(Types...)>
struct Kernel<kernel> {
  // The simulated GPU calls this: the shape is the first argument, the kernel's arguments follow.
  static void run(unsigned, unsigned, void** arguments) {
    const Shape shape = *static_cast<Shape*>(*arguments++);
    gridDim = shape.grid;
    blockDim = shape.block;
    for_each(gridDim, &blockIdx, [=] {
      for_each(blockDim, &threadIdx, [=] {
        [=]<size_t... n>(std::index_sequence<n...>) {
          kernel(*static_cast<Types*>(arguments[n])...);
        }(std::index_sequence_for<Types...>());
      });
    });
  }

  // Null is the default stream.
  static gpuError_t launch(gpuStream_t stream, const char* name, dim3 grid, dim3 block, Types... values) {
    if (!stream)
      if (gpuError_t error = fairlead_device_stream_adopt(&stream, nullptr)) return error;
    static constexpr fairlead_cpu_parameter parameters[] = {{sizeof(Shape), 0},
                                                            {sizeof(Types), std::is_pointer_v<Types>}...};
    static const fairlead_cpu_kernel description{name, parameters, 1 + sizeof...(Types), run, nullptr};
    static const fairlead_cpu_kernel* const list = &description;
    static const fairlead_code_image image{"cpu", reinterpret_cast<const unsigned char*>(&list), sizeof list};
    static const bool known = (fairlead_device_add_kernel(name, &image, 1), true);
    static_cast<void>(known);
    Shape shape{grid, block};
    void* arguments[] = {&shape, &values...};
    return fairlead_device_launch_on(stream, name, grid.x * grid.y * grid.z, block.x * block.y * block.z, arguments);
  }
};

}  // namespace gpu_sim

#define gpuLaunchOn(stream, kernel, grid, block, ...) \
  gpuCheck(gpu_sim::Kernel<kernel>::launch(stream, #kernel, grid, block, __VA_ARGS__))
