// SPDX-License-Identifier: Apache-2.0

#include "device/program/cupti.h"

#include <dlfcn.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "base/options.h"
#include "device/program/accesses.h"
#include "device/program/calls.h"
#include "device/program/cupti_abi.h"

namespace fairlead::device::program {
namespace {

using namespace cupti;

struct Driver {
  int (*parameter_of_function)(void*, size_t, size_t*, size_t*) = nullptr;
  int (*parameter_of_kernel)(void*, size_t, size_t*, size_t*) = nullptr;
} driver;

// A call of the driver's, with what its table row says of it.
struct Call {
  const CallbackData& data;
  bool per_thread;  // "_ptsz": 0 means the calling thread's default stream

  template <class Parameters>
  const Parameters& as() const {
    return *static_cast<const Parameters*>(data.parameters);
  }
  StreamKey key(Stream stream) const { return key_of(stream, data.context, per_thread); }
};

std::vector<Parameter> parameters_of(void* function) {
  std::vector<Parameter> parameters;
  for (Parameter one;; parameters.push_back(one))
    if (driver.parameter_of_function(function, parameters.size(), &one.offset, &one.bytes) != 0 &&
        !(driver.parameter_of_kernel &&
          driver.parameter_of_kernel(function, parameters.size(), &one.offset, &one.bytes) == 0))
      return parameters;
}

void launched(const Call& call, void* function, void** values, void** packed, Stream stream) {
  const char* symbol = call.data.symbol ? call.data.symbol : "";
  Work work = kernel(symbol, parameters_of(function), values, packed);
  launch_ends(&work);
  submitted(call.key(stream), std::move(work));
}

void launch(const Call& call) {
  const auto& to = call.as<Launch>();
  launched(call, to.function, to.parameters, to.packed, to.stream);
}
// A cooperative launch has no packed parameters.
void launch_cooperative(const Call& call) {
  const auto& to = call.as<Launch>();
  launched(call, to.function, to.parameters, nullptr, to.stream);
}
void launch_ex(const Call& call) {
  const auto& to = call.as<LaunchEx>();
  launched(call, to.function, to.parameters, to.packed, to.config->stream);
}
void copy_bytes(const Call& call) {
  const auto& [to, from, bytes, stream] = call.as<CopyAsync>();
  copied(call.key(stream), copy(to, from, bytes), false);
}
void copy_between_peers(const Call& call) {
  const auto& what = call.as<PeerCopyAsync>();
  submitted(call.key(what.stream), copy(what.to, what.from, what.bytes));
}
void copy_rows(const Call& call) {
  copied(call.key(call.as<Copy2dAsync>().stream), copy_2d(*call.as<Copy2dAsync>().copy), false);
}
template <class Value>
void fill_values(const Call& call) {
  const auto& [to, value, count, stream] = call.as<FillAsync<Value>>();
  submitted(call.key(stream), fill(to, count * sizeof(Value)));
}
void call_host(const Call& call) {
  submitted(call.key(call.as<OnStream>().stream), host_function());
}
void make_stream(const Call& call) {
  const auto& [stream, flags] = call.as<Create>();
  stream_made({nullptr, *stream}, call.data.context, flags & 1 ? StreamSort::alone : StreamSort::blocking);
}
void end_stream(const Call& call) {
  stream_ended(call.key(call.as<OnStream>().stream));
}
void wait_for_stream(const Call& call) {
  host_waited(call.key(call.as<OnStream>().stream));
}
void wait_for_context(const Call& call) {
  host_waited_for_context(call.data.context);
}
// The driver tells no length any more.
void free_in_stream(const Call& call) {
  freed(call.as<Free>().address, 1);
}
// It waits for the device of the memory, which need not be the current one.
void free_memory(const Call& call) {
  host_waited_for_context(nullptr);
  free_in_stream(call);
}
void reset_device(const Call&) {
  devices_reset();
}
void wait_for_event(const Call& call) {
  host_waited_for_event(call.as<OnEvent>().event);
}
void record(const Call& call) {
  recorded(call.as<Record>().event, call.key(call.as<Record>().stream));
}
void end_event(const Call& call) {
  event_ended(call.as<OnEvent>().event);
}
void let_wait(const Call& call) {
  stream_waits(call.key(call.as<Wait>().stream), call.as<Wait>().event);
}
// Copies that return when they are over, in the default stream.
void copy_and_wait(const Call& call) {
  host_waited(call.key(nullptr));
}
void begin_capture(const Call& call) {
  capture_began(call.key(call.as<OnStream>().stream));
}
void end_capture(const Call& call) {
  const bool ended = *call.data.result == 0;
  capture_ended(call.key(call.as<EndCapture>().stream), ended ? *call.as<EndCapture>().graph : nullptr);
}
void update_graph(const Call& call) {
  graph_instantiated(call.as<Update>().executable, call.as<Update>().graph);
}
void end_graph(const Call& call) {
  graph_ended(call.as<OnGraph>().graph);
}
void instantiate(const Call& call) {
  graph_instantiated(*call.as<Instantiate>().executable, call.as<Instantiate>().graph);
}
void launch_graph(const Call& call) {
  Work work;
  launch_ends(&work);
  graph_launched(call.as<GraphLaunch>().executable, call.key(call.as<GraphLaunch>().stream), std::move(work));
}

struct Row {
  unsigned number, per_thread;
  void (*report)(const Call&);
};
constexpr Row rows[] = {
#define FAIRLEAD_CUPTI_CALL(function, number, per_thread, handler) {number, per_thread, handler},
#include "device/program/cupti_calls.def"
#undef FAIRLEAD_CUPTI_CALL
};

constinit bool records_accesses = false;

// A query that finds the work in progress does not succeed. A capture ends, too, where its end is an error.
bool counts(const Row& row, const CallbackData& callback) {
  // After the call, another thread may have got the same handle.
  if (row.report == end_stream || row.report == end_event || row.report == end_graph)
    return callback.site == site_enter;
  return callback.site == site_exit && callback.result &&
         (*callback.result == 0 || row.report == end_capture);
}

void called_back(void*, int domain, unsigned number, const void* data) {
  for (const AccessCallback& other : access_callbacks)
    if (records_accesses && domain == other.domain && number == other.number) return other.handle(data);
  if (domain != domain_driver) return;
  if (!reports()) return launch_ends(nullptr);
  const auto& callback = *static_cast<const CallbackData*>(data);
  for (const Row& row : rows) {
    if (number != row.number && (!row.per_thread || number != row.per_thread)) continue;
    const bool launches = row.report == launch || row.report == launch_cooperative ||
                          row.report == launch_ex || row.report == launch_graph;
    if (records_accesses && launches && callback.site == site_enter) launch_begins();
    if (counts(row, callback)) row.report({callback, number == row.per_thread});
    if (callback.site == site_exit) launch_ends(nullptr);
    return;
  }
}

bool find_driver() {
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!cuda || !find_function(cuda, "cuFuncGetParamInfo", &driver.parameter_of_function)) return false;
  (void)find_function(cuda, "cuKernelGetParamInfo", &driver.parameter_of_kernel);
  return true;
}

// In the process, in the search path, or where toolkits are.
void* open(const std::vector<const char*>& names, const std::vector<const char*>& folders) {
  std::vector<std::string> places(names.begin(), names.end());
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH", ""})
    for (const char* folder : folders) {
      const char* home = *variable ? environment_variable(variable) : "/usr/local/cuda";
      if (home) places.push_back(std::string(home) + folder + names.back());
    }
  for (const std::string& place : places)
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

// Both libraries have these functions by other names. Not every driver has every function.
bool subscribe(void* library, const char* subscribe_name, const char* enable_name,
               const char* unsubscribe_name) {
  int (*subscribe)(void**, void (*)(void*, int, unsigned, const void*), void*);
  int (*enable)(uint32_t, void*, int, unsigned);
  int (*unsubscribe)(void*);
  void* subscriber = nullptr;
  if (!find_function(library, subscribe_name, &subscribe) || !find_function(library, enable_name, &enable) ||
      !find_function(library, unsubscribe_name, &unsubscribe) ||
      subscribe(&subscriber, called_back, nullptr) != 0)
    return false;
  for (const Row& row : rows)
    for (unsigned number : {row.number, row.per_thread})
      if (number) (void)enable(1, subscriber, domain_driver, number);
  // Kernels must not be patched where nobody says which record is theirs.
  for (const AccessCallback& other : access_callbacks)
    if (records_accesses && enable(1, subscriber, other.domain, other.number) != 0) {
      (void)unsubscribe(subscriber);
      return false;
    }
  return true;
}

// The library sees only modules that are loaded later, and a program may choose its GPU before MPI_Init.
constinit const char* why_not = "FAIRLEAD_CHECK did not say so when the program started";
__attribute__((constructor)) void record_accesses() {
  const char* wanted = environment_variable("FAIRLEAD_CHECK");
  if (!wanted || !strcasestr(wanted, "accesses") || !find_driver()) return;
  why_not = "no libsanitizer-public.so is found (set CUDA_HOME)";
  void* library = open({"libsanitizer-public.so"}, {"/compute-sanitizer/", "/extras/Sanitizer/"});
  if (!library || !can_record_accesses(library, &why_not)) return;
  records_accesses = true;
  if (!subscribe(library, "sanitizerSubscribe", "sanitizerEnableCallback", "sanitizerUnsubscribe")) {
    why_not = "another tool uses libsanitizer-public.so, or the driver does not suit it";
    records_accesses = false;
    return;
  }
  sees("cuda");
}

}  // namespace

bool watch_driver() {
  if (records_accesses) return true;
  if (!find_driver()) {
    log_line(LogLevel::info,
             "FAIRLEAD_CHECK=streams asks only whether a device works: the driver does not tell the "
             "parameters of kernels (from 550 on it does)");
    return false;
  }
  if (options().check.contains("accesses"))
    log_line(LogLevel::warn,
             "FAIRLEAD_CHECK=accesses judges kernels by their parameters, as streams does: %s", why_not);
  void* library =
      open({"libcupti.so.13", "libcupti.so.12", "libcupti.so"}, {"/lib64/", "/extras/CUPTI/lib64/"});
  if (library && subscribe(library, "cuptiSubscribe", "cuptiEnableCallback", "cuptiUnsubscribe")) return true;
  log_line(
      LogLevel::info,
      "FAIRLEAD_CHECK=streams asks only whether a device works: CUPTI of the CUDA toolkit cannot be used "
      "(libcupti.so; set CUDA_HOME; it serves one tool at a time)");
  return false;
}

}  // namespace fairlead::device::program
