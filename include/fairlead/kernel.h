// SPDX-License-Identifier: Apache-2.0
//
// Kernels with a single source for NVIDIA and AMD GPUs and for the simulated GPU:
//
//   #include <fairlead/kernel.h>
//   FAIRLEAD_KERNEL(scale, (double* x, double factor, unsigned long n)) {
//     for (auto i = fairlead::kernel::global_index(); i < n; i += fairlead::kernel::global_size()) x[i] *=
//     factor;
//   }
//
// The CMake function fairlead_add_device_code(<target> SOURCES scale.cpp) compiles such a source with clang
// for each GPU target it supports, embeds the results, and compiles it with the ordinary compiler for the
// simulated GPU. fairlead_device_launch("scale", ...) of device.h then runs the image that fits the device.
//
// Rules that allow a single source:
//  - Kernel names are C names, unique in the process. Parameters are trivially copyable, 4 KiB in total.
//  - Grids are one-dimensional; there is no shared memory.
//  - Kernels may dereference only pointers that are kernel parameters themselves, or with which a parameter
//    begins that is a struct and says how many they are, as Pointers<N> does. The simulated GPU translates
//    these, and no others, from the user's address to one that the CPU can access: a pointer to device memory
//    elsewhere in a struct, or in device memory, faults there. Page-locked memory needs no translation, so
//    that an MPIX_Prequest (partitioned.h) is a parameter.
//  - All threads of a block must reach each block_barrier(). On the simulated GPU, threads run one after the
//    other and none waits. Therefore only the block's last thread (is_last_thread()) may execute code behind
//    a barrier that depends on what other threads did before it. Blocks never wait for other blocks.
//  - Kernels include no GPU headers, and from the standard library only what needs no device runtime.
//
// A library that launches its kernels itself, without fairlead_device_launch(), defines
// FAIRLEAD_PRIVATE_KERNELS before it includes this header and uses images_of_this_source.

#pragma once

#if defined(__NVPTX__) || defined(__AMDGCN__)
#define FAIRLEAD_ON_GPU 1
// Always inlined: otherwise a reference to a kernel parameter would cost a copy of it.
#define FAIRLEAD_DEVICE_FUNCTION __attribute__((device, always_inline)) inline
#define FAIRLEAD_UNROLL _Pragma("unroll")
#define FAIRLEAD_NO_UNROLL _Pragma("nounroll")
#elif defined(__CUDA__) || defined(__HIP__)
#error "compile kernels with --cuda-device-only, as fairlead_add_device_code() does"
#else
#define FAIRLEAD_ON_GPU 0
#define FAIRLEAD_DEVICE_FUNCTION inline
#define FAIRLEAD_UNROLL
#define FAIRLEAD_NO_UNROLL
#endif

#if !FAIRLEAD_ON_GPU

#include <type_traits>
#include <utility>

extern "C" {

// Device code of one source for one target: "ptx" (text, including its final NUL), "gfx90a", ...; for "cpu",
// the address of the source's list of fairlead_cpu_kernel.
struct fairlead_code_image {
  const char* target;
  const unsigned char* bytes;
  unsigned long size;
};

struct fairlead_cpu_parameter {
  unsigned size;
  unsigned pointers;  // number of leading addresses that point to kernel-accessible memory
};

struct fairlead_cpu_kernel {
  const char* name;
  const fairlead_cpu_parameter* parameters;
  unsigned parameter_count;
  // Runs the whole grid in the calling thread. `arguments`: one address per parameter.
  void (*run)(unsigned grid, unsigned block, void** arguments);
  const fairlead_cpu_kernel* next;  // next kernel of the same source

  // Which of the first 32 parameters are pointers to const: a bit for each, in a row behind the parameters.
  unsigned reads() const { return parameters[parameter_count].size; }
};

// Registers a kernel for fairlead_device_launch(); of two kernels with one name, the first remains.
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

// A parameter that holds several pointers; unused ones are null. Any other struct that is a parameter and
// begins with pointers says, in such a constant, how many.
template <unsigned count>
struct Pointers {
  static constexpr unsigned pointers = count;
  void* at[count];
};

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
FAIRLEAD_DEVICE_FUNCTION void block_barrier() {
  __syncthreads();
}
FAIRLEAD_DEVICE_FUNCTION void system_fence() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}
// As the GPU works, not as PTX promises: whoever accesses its memory, another GPU, a network adapter, or a
// CPU that does not cache it, does so through its L2.
FAIRLEAD_DEVICE_FUNCTION void own_memory_fence() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
// A launch is ordered after everything that its CPU thread has observed: the kernel starts with an empty L1,
// and the L2 holds no lines of other GPUs' memory, which only its own GPU caches.
FAIRLEAD_DEVICE_FUNCTION void acquire_launch() {}
FAIRLEAD_DEVICE_FUNCTION void system_store(unsigned long* address, unsigned long value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
FAIRLEAD_DEVICE_FUNCTION void system_add(unsigned* address, unsigned value) {
  asm volatile("red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
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
// Agent scope: a fence by one wavefront does not wait for stores of other wavefronts, so each waits for its
// own first.
FAIRLEAD_DEVICE_FUNCTION void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
}
FAIRLEAD_DEVICE_FUNCTION void system_fence() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "");
}
// Its L2 may hold what others do not see yet.
FAIRLEAD_DEVICE_FUNCTION void own_memory_fence() {
  system_fence();
}
// The L2 may hold lines of other GPUs' memory (on gfx90a it does for coarse-grained memory), and HIP starts
// kernels with an acquire whose scope need not exceed the device.
FAIRLEAD_DEVICE_FUNCTION void acquire_launch() {
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
}
FAIRLEAD_DEVICE_FUNCTION void system_store(unsigned long* address, unsigned long value) {
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
}
FAIRLEAD_DEVICE_FUNCTION void system_add(unsigned* address, unsigned value) {
  __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
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
inline void block_barrier() {}
inline void system_fence() {}
inline void own_memory_fence() {}
inline void acquire_launch() {}
inline void system_store(unsigned long* address, unsigned long value) {
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
}
inline void system_add(unsigned* address, unsigned value) {
  __atomic_fetch_add(address, value, __ATOMIC_ACQ_REL);
}
#endif

// Semantics of these functions:
//   block_barrier()     synchronises the threads of a block; a later fence by any of them then covers the
//                       stores of all of them before the barrier
//   system_fence()      makes earlier stores visible to all GPUs and CPUs before later stores
//   own_memory_fence()  the same for stores to memory of the GPU that runs the kernel, and for no others;
//                       takes less time
//   acquire_launch()    must come first in a kernel that reads memory of other GPUs: the kernel then reads no
//                       data that was cached before the launch
//   system_store()      a store that CPUs may poll; it includes no fence
//   system_add()        an atomic addition to a word that other GPUs change, too; it includes no fence

// Selects the thread that executes once-per-block code behind a barrier.
FAIRLEAD_DEVICE_FUNCTION bool is_last_thread() {
  return thread_index() == block_size() - 1;
}

// The index of this thread among all threads of the launch, and their number.
FAIRLEAD_DEVICE_FUNCTION unsigned long global_index() {
  return static_cast<unsigned long>(block_index()) * block_size() + thread_index();
}
FAIRLEAD_DEVICE_FUNCTION unsigned long global_size() {
  return static_cast<unsigned long>(grid_size()) * block_size();
}

// Relaxed order; integers of 4 and 8 bytes. Returns the old value.
template <class T>
FAIRLEAD_DEVICE_FUNCTION T atomic_add(T* address, T value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

// One access to global or page-locked memory of 1, 2, 4, 8 or 16 bytes, aligned to its size. `Value` is any
// trivially copyable type. No other agent may change loaded memory while the kernel runs.
namespace detail {
template <unsigned bytes>
struct Word;
#define FAIRLEAD_WORD(bytes, ...)                        \
  template <>                                            \
  struct Word<bytes> {                                   \
    typedef __VA_ARGS__ __attribute__((may_alias)) Type; \
  };
FAIRLEAD_WORD(1, unsigned char)
FAIRLEAD_WORD(2, unsigned short)
FAIRLEAD_WORD(4, unsigned)
FAIRLEAD_WORD(8, unsigned long)
FAIRLEAD_WORD(16, unsigned __attribute__((vector_size(16))))
#undef FAIRLEAD_WORD
}  // namespace detail

#if FAIRLEAD_ON_GPU
#define FAIRLEAD_GLOBAL __attribute__((address_space(1)))
#else
#define FAIRLEAD_GLOBAL
#endif
template <class Value>
FAIRLEAD_DEVICE_FUNCTION Value load(const void* address) {
  using Word = typename detail::Word<sizeof(Value)>::Type;
  return __builtin_bit_cast(Value, *(const FAIRLEAD_GLOBAL Word*)address);
}
template <class Value>
FAIRLEAD_DEVICE_FUNCTION void store(void* address, Value value) {
  using Word = typename detail::Word<sizeof(Value)>::Type;
  *(FAIRLEAD_GLOBAL Word*)address = __builtin_bit_cast(Word, value);
}
#undef FAIRLEAD_GLOBAL

}  // namespace fairlead::kernel

#if FAIRLEAD_ON_GPU

#define FAIRLEAD_KERNEL(name, parameters) extern "C" __attribute__((global)) void name parameters

// A kernel that is never launched with more than `threads` threads per block; it may use more registers.
#if defined(__NVPTX__)
#define FAIRLEAD_BOUNDED_KERNEL(threads, name, parameters) \
  extern "C" __attribute__((global, launch_bounds(threads))) void name parameters
#else
#define FAIRLEAD_BOUNDED_KERNEL(threads, name, parameters) \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, threads))) void name parameters
#endif

#else

// The build defines this macro as the embedded images before it includes the kernel's source.
#ifndef FAIRLEAD_CODE_IMAGES
#define FAIRLEAD_CODE_IMAGES
#endif

// An anonymous namespace: every source that includes this header has its own images and kernels.
namespace fairlead::kernel {
namespace {

const fairlead_cpu_kernel* kernels_of_this_source = nullptr;

const fairlead_code_image images_of_this_source[] = {FAIRLEAD_CODE_IMAGES{
    "cpu", reinterpret_cast<const unsigned char*>(&kernels_of_this_source), sizeof kernels_of_this_source}};

template <class Type>
constexpr unsigned pointers_in = std::is_pointer_v<Type>;
template <class Type>
requires requires {
  typename std::integral_constant<unsigned, Type::pointers>;
}
constexpr unsigned pointers_in<Type> = Type::pointers;

template <class... Types>
struct Signature {
  static constexpr unsigned reads() {
    unsigned bits = 0, bit = 1;
    ((bits |= std::is_const_v<std::remove_pointer_t<Types> > ? bit : 0, bit <<= 1), ...);
    return bits;
  }
  static constexpr fairlead_cpu_parameter parameters[] = {{sizeof(Types), pointers_in<Types>}...,
                                                          {reads(), 0}};

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
  static_assert((std::is_trivially_copyable_v<Types> && ...), "kernel parameters are copied as bytes");

  explicit Registration(const char* name)
      : kernel{name, Signature<Types...>::parameters, sizeof...(Types),
               Signature<Types...>::template run<body>, kernels_of_this_source} {
    kernels_of_this_source = &kernel;
#ifndef FAIRLEAD_PRIVATE_KERNELS
    fairlead_device_add_kernel(name, images_of_this_source,
                               sizeof images_of_this_source / sizeof *images_of_this_source);
#endif
  }
  fairlead_cpu_kernel kernel;
};

}  // namespace
}  // namespace fairlead::kernel

#define FAIRLEAD_KERNEL(name, parameters)                                             \
  static void name parameters;                                                        \
  static const ::fairlead::kernel::Registration<&name> fairlead_kernel_##name(#name); \
  static void name parameters
#define FAIRLEAD_BOUNDED_KERNEL(threads, name, parameters) FAIRLEAD_KERNEL(name, parameters)

#endif
