// SPDX-License-Identifier: Apache-2.0
//
// Proves at compile time that src/device/program/hip_abi.h and hip_calls.def describe the tables that
// <hip/amd_detail/hip_api_trace.hpp> describes, as far as the header's release has them. Compiled where the
// header is found; there is nothing to run.

#define __HIP_PLATFORM_AMD__ 1
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>

// Of OpenGL, and of old programs: the table names them.
using GLuint = unsigned;
using GLenum = unsigned;
enum hipGLDeviceList : int;
struct hipDeviceProp_tR0000;
#include <cstddef>
#include <hip/amd_detail/hip_api_trace.hpp>
#include <type_traits>

#include "device/program/hip_abi.h"
#include "same_abi.h"

namespace fairlead::device::program::hip {
namespace {

constexpr size_t place(size_t number) {
  return offsetof(Table, functions) + number * sizeof(void*);
}

// Has the table this function at this place, or does it end before?
#define FAIRLEAD_HAS(T, member, number, ...)                                                          \
  []<class Theirs>(Theirs*) {                                                                         \
    if constexpr (requires(Theirs table) { table.member; })                                           \
      return offsetof(Theirs, member) == place(number) &&                                             \
             test::SameFunction<__VA_ARGS__, std::remove_pointer_t<decltype(Theirs::member)>>::value; \
    else                                                                                              \
      return place(number) >= sizeof(Theirs);                                                         \
  }(static_cast<T*>(nullptr))

#define FAIRLEAD_HIP_CALL(function, number, per_thread, action, ...)                                      \
  static_assert(FAIRLEAD_HAS(HipDispatchTable, function##_fn, number, int(__VA_ARGS__)), #function);      \
  static_assert(                                                                                          \
      per_thread == 0 || FAIRLEAD_HAS(HipDispatchTable, function##_spt_fn, per_thread, int(__VA_ARGS__)), \
      #function "_spt");
#define FAIRLEAD_HIP_CODE FAIRLEAD_HIP_CALL
#include "device/program/hip_calls.def"
#undef FAIRLEAD_HIP_CALL
#undef FAIRLEAD_HIP_CODE
static_assert(FAIRLEAD_HAS(HipDispatchTable, hipGetDevice_fn, get_device, int(int*)));
static_assert(FAIRLEAD_HAS(HipCompilerDispatchTable, __hipRegisterFatBinary_fn, compiler::register_binary,
                           const void**(const Binary*)));
static_assert(FAIRLEAD_HAS(HipCompilerDispatchTable, __hipRegisterFunction_fn, compiler::register_function,
                           std::remove_pointer_t<RegisterFunction>));
static_assert(FAIRLEAD_HAS(HipCompilerDispatchTable, __hipUnregisterFatBinary_fn, compiler::unregister_binary,
                           void(const void**)));

// One member is at the place of the vendor's.
#define SAME(Ours, member, Theirs, theirs)                            \
  static_assert(offsetof(Ours, member) == offsetof(Theirs, theirs) && \
                sizeof(Ours::member) == sizeof(Theirs::theirs))
SAME(Copy2d, from.memory_type, hip_Memcpy2D, srcMemoryType);
SAME(Copy2d, from.device, hip_Memcpy2D, srcDevice);
SAME(Copy2d, from.pitch, hip_Memcpy2D, srcPitch);
SAME(Copy2d, to.host, hip_Memcpy2D, dstHost);
SAME(Copy2d, width, hip_Memcpy2D, WidthInBytes);
SAME(Copy2d, height, hip_Memcpy2D, Height);
#if HIP_VERSION_MAJOR >= 7
SAME(RuntimeConfig, stream, hipLaunchConfig_t, stream);
SAME(LaunchConfig, stream, HIP_LAUNCH_CONFIG, hStream);
#endif
static_assert(hipMemoryTypeHost == 1);

}  // namespace
}  // namespace fairlead::device::program::hip
