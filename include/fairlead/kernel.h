// SPDX-License-Identifier: Apache-2.0
//
// Kernels written once, for NVIDIA and AMD GPUs and for the simulated GPU:
//
//   #include <fairlead/kernel.h>
//   FAIRLEAD_KERNEL(scale, (double* x, double factor, unsigned long n)) {
//     for (auto i = fairlead::kernel::global_index(); i < n; i += fairlead::kernel::global_size()) x[i] *=
//     factor;
//   }
//
// The CMake function fairlead_add_device_code(<target> SOURCES scale.cpp) compiles such a source by clang
// for each GPU target it knows, embeds the results, and compiles it by the ordinary compiler for the
// simulated GPU. fairlead_device_launch("scale", ...) of device.h then runs the one that fits.
//
// Rules that make one source fit all:
//  - Kernel names are C names, unique in the process. Parameters are trivially copyable.
//  - One-dimensional grids; threads of a block cannot wait for each other (no barrier, no shared memory).
//  - Only pointers that are kernel parameters themselves may be dereferenced. On the simulated GPU these, and
//    no others, are translated from the address the user holds to one the CPU can reach: a pointer inside a
//    struct parameter or in device memory faults there.
//  - No GPU headers; of the standard library, only what needs no device runtime.

#pragma once

#if defined(__NVPTX__) || defined(__AMDGCN__)
#define FAIRLEAD_ON_GPU 1
#define FAIRLEAD_DEVICE_FUNCTION __attribute__((device)) inline
#elif defined(__CUDA__) || defined(__HIP__)
#error "compile kernels with --cuda-device-only, as fairlead_add_device_code() does"
#else
#define FAIRLEAD_ON_GPU 0
#define FAIRLEAD_DEVICE_FUNCTION inline
#endif

#if !FAIRLEAD_ON_GPU

#include <type_traits>
#include <utility>

extern "C" {

// Device code of one source for one target: "ptx" (text, its closing NUL counted), "gfx90a", ...; "cpu" is
// the address of the source's list of fairlead_cpu_kernel.
struct fairlead_code_image {
  const char* target;
  const unsigned char* bytes;
  unsigned long size;
};

struct fairlead_cpu_parameter {
  unsigned size;
  bool is_pointer;
};

struct fairlead_cpu_kernel {
  const char* name;
  const fairlead_cpu_parameter* parameters;
  unsigned parameter_count;
  // Runs the whole grid in the calling thread. `arguments`: one address per parameter.
  void (*run)(unsigned grid, unsigned block, void** arguments);
  const fairlead_cpu_kernel* next;  // of the same source
};

// Makes a kernel known to fairlead_device_launch(); of two with one name, the first stays.
void fairlead_device_add_kernel(const char* name, const fairlead_code_image* images, unsigned long count);
}

namespace fairlead::kernel {

struct Position {
  unsigned block, thread, block_size, grid_size;
};
inline thread_local constinit Position position{};

}  // namespace fairlead::kernel

#endif

namespace fairlead::kernel {

#if defined(__NVPTX__)
FAIRLEAD_DEVICE_FUNCTION unsigned thread_index() {
  return __nvvm_read_ptx_sreg_tid_x();
}
FAIRLEAD_DEVICE_FUNCTION unsigned block_index() {
  return __nvvm_read_ptx_sreg_ctaid_x();
}
FAIRLEAD_DEVICE_FUNCTION unsigned block_size() {
  return __nvvm_read_ptx_sreg_ntid_x();
}
FAIRLEAD_DEVICE_FUNCTION unsigned grid_size() {
  return __nvvm_read_ptx_sreg_nctaid_x();
}
#elif defined(__AMDGCN__)
FAIRLEAD_DEVICE_FUNCTION unsigned thread_index() {
  return __builtin_amdgcn_workitem_id_x();
}
FAIRLEAD_DEVICE_FUNCTION unsigned block_index() {
  return __builtin_amdgcn_workgroup_id_x();
}
FAIRLEAD_DEVICE_FUNCTION unsigned block_size() {
  return __builtin_amdgcn_workgroup_size_x();
}
FAIRLEAD_DEVICE_FUNCTION unsigned grid_size() {
  return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
}
#else
inline unsigned thread_index() {
  return position.thread;
}
inline unsigned block_index() {
  return position.block;
}
inline unsigned block_size() {
  return position.block_size;
}
inline unsigned grid_size() {
  return position.grid_size;
}
#endif

// This thread's place among all threads of the launch, and how many there are.
FAIRLEAD_DEVICE_FUNCTION unsigned long global_index() {
  return static_cast<unsigned long>(block_index()) * block_size() + thread_index();
}
FAIRLEAD_DEVICE_FUNCTION unsigned long global_size() {
  return static_cast<unsigned long>(grid_size()) * block_size();
}

// Relaxed; integers of 4 and 8 bytes. Returns the old value.
template <class T>
FAIRLEAD_DEVICE_FUNCTION T atomic_add(T* address, T value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

}  // namespace fairlead::kernel

#if FAIRLEAD_ON_GPU

#define FAIRLEAD_KERNEL(name, parameters) extern "C" __attribute__((global)) void name parameters

#else

// The build defines this as the images it embeds, before it includes the kernel's source.
#ifndef FAIRLEAD_CODE_IMAGES
#define FAIRLEAD_CODE_IMAGES
#endif

// Unnamed: every source that includes this header has its own images and kernels.
namespace fairlead::kernel {
namespace {

const fairlead_cpu_kernel* kernels_of_this_source = nullptr;

const fairlead_code_image images_of_this_source[] = {FAIRLEAD_CODE_IMAGES{
    "cpu", reinterpret_cast<const unsigned char*>(&kernels_of_this_source), sizeof kernels_of_this_source}};

template <class... Types>
struct Signature {
  static constexpr fairlead_cpu_parameter parameters[] = {{sizeof(Types), std::is_pointer_v<Types>}..., {}};

  template <void (*body)(Types...)>
  static void run(unsigned grid, unsigned block, void** arguments) {
    position = {0, 0, block, grid};
    for (position.block = 0; position.block < grid; ++position.block)
      for (position.thread = 0; position.thread < block; ++position.thread)
        [arguments]<unsigned... index>(std::integer_sequence<unsigned, index...>) {
          body(*static_cast<Types*>(arguments[index])...);
        }
    (std::make_integer_sequence<unsigned, sizeof...(Types)>());
  }
};

template <auto body>
struct Registration;

template <class... Types, void (*body)(Types...)>
struct Registration<body> {
  static_assert((std::is_trivially_copyable_v<Types> && ...), "kernel parameters travel as bytes");

  explicit Registration(const char* name)
      : kernel{name, Signature<Types...>::parameters, sizeof...(Types),
               Signature<Types...>::template run<body>, kernels_of_this_source} {
    kernels_of_this_source = &kernel;
    fairlead_device_add_kernel(name, images_of_this_source,
                               sizeof images_of_this_source / sizeof *images_of_this_source);
  }
  fairlead_cpu_kernel kernel;
};

}  // namespace
}  // namespace fairlead::kernel

#define FAIRLEAD_KERNEL(name, parameters)                                             \
  static void name parameters;                                                        \
  static const ::fairlead::kernel::Registration<&name> fairlead_kernel_##name(#name); \
  static void name parameters

#endif
