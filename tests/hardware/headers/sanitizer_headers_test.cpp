// SPDX-License-Identifier: Apache-2.0
//
// Proves at compile time that src/device/program/sanitizer_abi.h describes the Sanitizer API that
// <sanitizer.h> describes, and that its driver callbacks have the numbers and the data of CUPTI's. Compiled
// where the header is found; there is nothing to run.

#include <cuda.h>
#include <sanitizer.h>

#include <cstddef>
#include <type_traits>

#include "device/program/cupti_abi.h"
#include "device/program/sanitizer_abi.h"

namespace fairlead::device::program {
namespace {

#define FAIRLEAD_CUPTI_CALL(function, number, per_thread, handler) \
  static_assert(SANITIZER_CBID_DRIVER_API_##function == number);
#include "device/program/cupti_calls.def"
#undef FAIRLEAD_CUPTI_CALL
static_assert(SANITIZER_CBID_DRIVER_API_cuLaunchKernel_ptsz == 442 &&
              SANITIZER_CBID_DRIVER_API_cuEventRecord_ptsz == 441);

static_assert(cupti::site_exit == SANITIZER_API_EXIT &&
              cupti::domain_driver == SANITIZER_CB_DOMAIN_DRIVER_API);
static_assert(sanitizer::domain_resource == SANITIZER_CB_DOMAIN_RESOURCE &&
              sanitizer::domain_launch == SANITIZER_CB_DOMAIN_LAUNCH &&
              sanitizer::domain_graphs == SANITIZER_CB_DOMAIN_GRAPHS);
static_assert(sanitizer::context_ends == SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING &&
              sanitizer::module_loaded == SANITIZER_CBID_RESOURCE_MODULE_LOADED &&
              sanitizer::module_unloads == SANITIZER_CBID_RESOURCE_MODULE_UNLOAD_STARTING &&
              sanitizer::launch_begin == SANITIZER_CBID_LAUNCH_BEGIN &&
              sanitizer::node_launch_begin == SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN &&
              sanitizer::graph_launch_begin == SANITIZER_CBID_GRAPHS_LAUNCH_BEGIN);
static_assert(sanitizer::global_access == int(SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS) &&
              sanitizer::copy_to_shared == int(SANITIZER_INSTRUCTION_MEMCPY_ASYNC) &&
              sanitizer::bulk_copy_to_shared == int(SANITIZER_INSTRUCTION_BULK_COPY_GLOBAL_TO_SHARED) &&
              sanitizer::bulk_copy_from_shared == int(SANITIZER_INSTRUCTION_BULK_COPY_SHARED_TO_GLOBAL) &&
              sanitizer::bulk_reduction_from_shared ==
                  int(SANITIZER_INSTRUCTION_BULK_REDUCTION_SHARED_TO_GLOBAL));
static_assert(SANITIZER_MEMORY_DEVICE_FLAG_READ == 1 && SANITIZER_MEMORY_DEVICE_FLAG_WRITE == 2 &&
              SANITIZER_MEMORY_DEVICE_FLAG_PREFETCH == 8 && SANITIZER_PATCH_SUCCESS == 0);

// One member is at the place of the vendor's.
#define SAME(Ours, member, Theirs, theirs)                            \
  static_assert(offsetof(Ours, member) == offsetof(Theirs, theirs) && \
                sizeof(Ours::member) == sizeof(Theirs::theirs))
SAME(cupti::CallbackData, site, Sanitizer_CallbackData, callbackSite);
SAME(cupti::CallbackData, parameters, Sanitizer_CallbackData, functionParams);
SAME(cupti::CallbackData, result, Sanitizer_CallbackData, functionReturnValue);
SAME(cupti::CallbackData, symbol, Sanitizer_CallbackData, symbolName);
SAME(cupti::CallbackData, context, Sanitizer_CallbackData, context);
SAME(sanitizer::OfContext, context, Sanitizer_ResourceContextData, context);
SAME(sanitizer::OfModule, context, Sanitizer_ResourceModuleData, context);
SAME(sanitizer::OfModule, module, Sanitizer_ResourceModuleData, module);
SAME(sanitizer::OfStream, context, Sanitizer_GraphLaunchData, context);
SAME(sanitizer::OfStream, stream_handle, Sanitizer_GraphLaunchData, hStream);
static_assert(offsetof(sanitizer::OfLaunch, on) == 0);
SAME(sanitizer::OfStream, context, Sanitizer_LaunchData, context);
SAME(sanitizer::OfStream, stream_handle, Sanitizer_LaunchData, hStream);
SAME(sanitizer::OfLaunch, module, Sanitizer_LaunchData, module);
SAME(sanitizer::OfLaunch, function, Sanitizer_LaunchData, function);
SAME(sanitizer::OfLaunch, launch, Sanitizer_LaunchData, hLaunch);
SAME(sanitizer::OfNodeLaunch, type, Sanitizer_GraphNodeLaunchData, nodeType);
static_assert(offsetof(sanitizer::OfNodeLaunch, kernel) ==
              offsetof(Sanitizer_GraphNodeLaunchData, launchData));
static_assert(sanitizer::kernel_node == CU_GRAPH_NODE_TYPE_KERNEL);
#undef SAME

// Handles and enumerations are pointers and integers here.
template <class>
struct Plain;
template <class... Parameters>
struct Plain<SanitizerResult(Parameters...)> {
  template <class Type>
  using As = std::conditional_t<std::is_enum_v<std::remove_const_t<Type>>, int,
                                std::conditional_t<std::is_pointer_v<Type>, const void*, Type>>;
  using type = int(As<Parameters>...);
};
template <class>
struct Ours;
template <class... Parameters>
struct Ours<int (*)(Parameters...)> {
  using type = int(std::conditional_t<std::is_pointer_v<Parameters>, const void*, Parameters>...);
};
#define SAME_FUNCTION(member, theirs) \
  static_assert(                      \
      std::is_same_v<Ours<decltype(sanitizer::Functions::member)>::type, Plain<decltype(theirs)>::type>)
SAME_FUNCTION(add_patches, sanitizerAddPatches);
SAME_FUNCTION(patch_instructions, sanitizerPatchInstructions);
SAME_FUNCTION(patch_module, sanitizerPatchModule);
SAME_FUNCTION(set_launch_data, sanitizerSetLaunchCallbackData);
SAME_FUNCTION(allocate, sanitizerAlloc);
SAME_FUNCTION(release, sanitizerFree);
SAME_FUNCTION(to_device, sanitizerMemcpyHostToDeviceAsync);
SAME_FUNCTION(to_host, sanitizerMemcpyDeviceToHost);
SAME_FUNCTION(fill, sanitizerMemset);
#undef SAME_FUNCTION

}  // namespace
}  // namespace fairlead::device::program
