// SPDX-License-Identifier: Apache-2.0

#include "streams/race_gpu.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "harness/harness.h"
#include "streams/stream_kernels.h"

namespace ranks {
namespace {

constexpr RaceGpu of_fairlead = {
    .stream_create = fairlead_device_stream_create,
    .stream_destroy = fairlead_device_stream_destroy,
    .stream_synchronize = fairlead_device_stream_synchronize,
    .stream_query = fairlead_device_stream_query,
    .synchronize = fairlead_device_synchronize,
    .event_create = fairlead_device_event_create,
    .event_destroy = fairlead_device_event_destroy,
    .event_record = fairlead_device_event_record,
    .event_query = fairlead_device_event_query,
    .event_wait = fairlead_device_event_wait,
    .copy_on = fairlead_device_copy_on,
    .fill_on = fairlead_device_fill_on,
    .call_on = fairlead_device_call_on,
    .capture_begin = fairlead_device_capture_begin,
    .capture_end = fairlead_device_capture_end,
    .graph_launch = fairlead_device_graph_launch,
    .graph_destroy = fairlead_device_graph_destroy,
};

// That of the process: Fairlead opens it where it needs a GPU. Finding it is a call of HIP.
void* find_hip_library() {
  int device = 0;
  if (fairlead_device_get(&device) != FAIRLEAD_DEVICE_SUCCESS) return nullptr;
  for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"})
    if (void* library = dlopen(name, RTLD_NOLOAD | RTLD_NOW)) return library;
  return nullptr;
}

void* hip_library() {
  static void* const library = find_hip_library();
  return library;
}

// HIP as a program calls it.
template <class Function>
Function hip(const char* name) {
  void* const function = hip_library() ? dlsym(hip_library(), name) : nullptr;
  if (!function) give_up("no HIP in the process, or it lacks %s", name);
  return reinterpret_cast<Function>(function);
}
template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  constexpr int not_ready = 600;
  const int code = hip<int (*)(Arguments...)>(name)(arguments...);
  return code == not_ready ? FAIRLEAD_DEVICE_NOT_READY : code;
}

constexpr RaceGpu of_hip = {
    .stream_create = [](GpuStream** made) { return call("hipStreamCreateWithPriority", made, 1u, 0); },
    .stream_destroy = [](GpuStream* stream) { return call("hipStreamDestroy", stream); },
    .stream_synchronize = [](GpuStream* stream) { return call("hipStreamSynchronize", stream); },
    .stream_query = [](GpuStream* stream) { return call("hipStreamQuery", stream); },
    .synchronize = [] { return call("hipDeviceSynchronize"); },
    .event_create = [](GpuEvent** made) { return call("hipEventCreateWithFlags", made, 2u); },
    .event_destroy = [](GpuEvent* event) { return call("hipEventDestroy", event); },
    .event_record = [](GpuEvent* event, GpuStream* stream) { return call("hipEventRecord", event, stream); },
    .event_query = [](GpuEvent* event) { return call("hipEventQuery", event); },
    .event_wait = [](GpuEvent* event,
                     GpuStream* stream) { return call("hipStreamWaitEvent", stream, event, 0u); },
    .copy_on = [](GpuStream* stream, void* to, const void* from,
                  size_t bytes) { return call("hipMemcpyAsync", to, from, bytes, 4, stream); },
    .fill_on = [](GpuStream* stream, void* to, int value,
                  size_t bytes) { return call("hipMemsetD8Async", to, value, bytes, stream); },
    .call_on = [](GpuStream* stream, void (*function)(void*),
                  void* argument) { return call("hipLaunchHostFunc", stream, function, argument); },
    .capture_begin = [](GpuStream* stream) { return call("hipStreamBeginCapture", stream, 1); },
    .capture_end =
        [](GpuStream* stream, GpuGraph** made) {
          void* graph = nullptr;
          int code = call("hipStreamEndCapture", stream, &graph);
          if (!code) code = call("hipGraphInstantiateWithFlags", made, graph, 0ull);
          return code ? code : call("hipGraphDestroy", graph);
        },
    .graph_launch = [](GpuGraph* graph, GpuStream* stream) { return call("hipGraphLaunch", graph, stream); },
    .graph_destroy = [](GpuGraph* graph) { return call("hipGraphExecDestroy", graph); },
};

// As clang-offload-bundler lays it out. The host's part, which hipcc leaves empty, tells the hostile ROCm the
// address of the code that it runs.
std::string bundle_of(const std::vector<fairlead_code_image>& images) {
  std::string head = "__CLANG_OFFLOAD_BUNDLE__", body;
  constexpr size_t body_begins = 4096;
  std::string entries;
  uint64_t count = 0;
  const auto add_numbers = [](std::string* to, std::initializer_list<uint64_t> numbers) {
    for (const uint64_t& number : numbers) to->append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const auto add = [&](const std::string& target, const void* bytes, size_t size) {
    add_numbers(&entries, {body_begins + body.size(), size, target.size()});
    entries += target;
    body.append(static_cast<const char*>(bytes), size);
    ++count;
  };
  for (const fairlead_code_image& image : images)
    if (strcmp(image.target, "cpu") == 0)
      add("host-x86_64-unknown-linux--", &image.bytes, sizeof image.bytes);
  for (const fairlead_code_image& image : images)
    if (strncmp(image.target, "gfx", 3) == 0)
      add(std::string("hipv4-amdgcn-amd-amdhsa--") + image.target, image.bytes, image.size);
  add_numbers(&head, {count});
  head += entries;
  head.resize(body_begins);
  return head + body;
}

struct Named {
  const char *kernel, *symbol;
  char function;  // whose address stands for the kernel's
};
constinit Named kernels[] = {{"write_byte", "_ZN11hip_program10write_byteEPh", 0},
                             {"read_when_over", "_ZN11hip_program14read_when_overEPKiPKh", 0}};
constinit Named compressed{"write_byte", "_ZN11hip_program10write_byteEPh", 0};

Named& named(const char* kernel) {
  for (Named& one : kernels)
    if (strcmp(one.kernel, kernel) == 0) return one;
  give_up("no kernel %s", kernel);
}

// What the compiler's constructors do.
void register_binary(const std::string& image, Named* begin, size_t count) {
  struct Binary {
    uint32_t magic, version;
    const void* image;
    void* unused;
  };
  auto& binary = *new Binary{0x48495046, 1, image.data(), nullptr};
  void** const module = hip<void** (*)(const Binary*)>("__hipRegisterFatBinary")(&binary);
  const auto register_function = hip<void (*)(void**, const void*, const char*, const char*, unsigned, void*,
                                              void*, void*, void*, int*)>("__hipRegisterFunction");
  for (Named* one = begin; one != begin + count; ++one)
    register_function(module, &one->function, one->symbol, one->symbol, ~0u, nullptr, nullptr, nullptr,
                      nullptr, nullptr);
}

RaceHip bind_hip() {
  static const std::string whole = bundle_of(stream_kernel_images());
  static const std::string unreadable = "CCOB" + whole.substr(4);
  register_binary(whole, kernels, std::size(kernels));
  const void* const counts = dlsym(hip_library(), "hostile_rocm_profiled");
  if (counts) register_binary(unreadable, &compressed, 1);
  return {hip<decltype(RaceHip::launch)>("hipLaunchKernel"),
          hip<decltype(RaceHip::launch_with_events)>("hipExtLaunchKernel"),
          hip<decltype(RaceHip::load_module)>("hipModuleLoadData"),
          hip<decltype(RaceHip::find_function)>("hipModuleGetFunction"),
          hip<decltype(RaceHip::launch_function)>("hipModuleLaunchKernel"),
          hip<decltype(RaceHip::copy_2d)>("hipMemcpy2D"),
          hip<decltype(RaceHip::register_host)>("hipHostRegister"),
          hip<decltype(RaceHip::unregister_host)>("hipHostUnregister"),
          hip<decltype(RaceHip::allocate)>("hipMalloc"),
          hip<decltype(RaceHip::free)>("hipFree"),
          hip<decltype(RaceHip::set_device)>("hipSetDevice"),
          whole.data(),
          whole.find("gfx") != std::string::npos,
          static_cast<const int*>(counts)};
}

}  // namespace

const RaceHip* race_hip() {
  const char* wanted = getenv("TEST_RACES");
  if (!wanted || strcmp(wanted, "hip") != 0) return nullptr;
  static const RaceHip bound = bind_hip();
  return &bound;
}

const RaceGpu& race_gpu() {
  return race_hip() ? of_hip : of_fairlead;
}

const void* RaceHip::function(const char* kernel) const {
  return &named(kernel).function;
}
const void* RaceHip::compressed_function() {
  return &compressed.function;
}
const char* RaceHip::symbol(const char* kernel) {
  return named(kernel).symbol;
}

}  // namespace ranks
