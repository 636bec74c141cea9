// SPDX-License-Identifier: Apache-2.0
//
// By what the programs of races.cpp use the GPU: fairlead/device.h, or HIP where TEST_RACES is hip. Then
// kernels are those of the program's own code, as hipcc makes it.

#pragma once

#include <fairlead/device.h>

#include <cstddef>

namespace ranks {

using GpuStream = fairlead_device_stream;
using GpuEvent = fairlead_device_event;
using GpuGraph = fairlead_device_graph;

// Results are those of fairlead/device.h.
struct RaceGpu {
  int (*stream_create)(GpuStream**);
  int (*stream_destroy)(GpuStream*);
  int (*stream_synchronize)(GpuStream*);
  int (*stream_query)(GpuStream*);
  int (*synchronize)();
  int (*event_create)(GpuEvent**);
  int (*event_destroy)(GpuEvent*);
  int (*event_record)(GpuEvent*, GpuStream*);
  int (*event_query)(GpuEvent*);
  int (*event_wait)(GpuEvent*, GpuStream*);
  int (*copy_on)(GpuStream*, void*, const void*, size_t);
  int (*fill_on)(GpuStream*, void*, int, size_t);
  int (*call_on)(GpuStream*, void (*)(void*), void*);
  int (*capture_begin)(GpuStream*);
  int (*capture_end)(GpuStream*, GpuGraph**);
  int (*graph_launch)(GpuGraph*, GpuStream*);
  int (*graph_destroy)(GpuGraph*);
};
const RaceGpu& race_gpu();

// HIP alone. Kernels are known by the addresses of functions of the program.
struct RaceHip {
  struct Dim3 {
    unsigned x, y, z;
  };
  int (*launch)(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream);
  int (*launch_with_events)(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,
                            void* stream, void* start, void* stop, int flags);
  int (*load_module)(void** module, const void* image);
  int (*find_function)(void** function, void* module, const char* name);
  int (*launch_function)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned shared, void* stream, void** arguments, void** packed);
  int (*copy_2d)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 int kind);
  int (*register_host)(void* memory, size_t bytes, unsigned flags);
  int (*unregister_host)(void* memory);
  int (*allocate)(void** memory, size_t bytes);
  int (*free)(void* memory);
  int (*set_device)(int device);
  const void* bundle;  // the program's code
  bool has_code;       // for AMD GPUs
  // Of the hostile ROCm alone, else null: how often its profiler has seen a stream waited for.
  const int* profiled;

  const void* function(const char* kernel) const;
  static const void* compressed_function();  // write_byte, in code that cannot be read
  static const char* symbol(const char* kernel);
};
// Null if the programs use fairlead/device.h.
const RaceHip* race_hip();

// Inlined: each place of a launch is named once.
[[gnu::always_inline]] inline int race_launch(GpuStream* stream, const char* kernel, void** arguments) {
  if (const RaceHip* hip = race_hip())
    return hip->launch(hip->function(kernel), {1, 1, 1}, {1, 1, 1}, arguments, 0, stream);
  return stream ? fairlead_device_launch_on(stream, kernel, 1, 1, arguments)
                : fairlead_device_launch(kernel, 1, 1, arguments);
}

}  // namespace ranks
