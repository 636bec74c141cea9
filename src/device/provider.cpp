// SPDX-License-Identifier: Apache-2.0
//
// Chooses the GPU provider of this process, once; and once more if a caller needs a GPU and the chosen
// provider has none. Also contains the names of the contract's enumerators.

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "base/launched_job.h"
#include "base/log.h"
#include "base/options.h"
#include "base/said.h"
#include "device/blocking_driver_calls.h"
#include "device/pci_gpu.h"
#include "device/program/work.h"
#include "device/runtime.h"

namespace fairlead::device {
namespace {

using Make = Runtime* (*)(const char** why_not);

// The first rank of a node speaks for all.
void refuse(const char* name, const char* why_not, const char* remedy) {
  if (said_before("FAIRLEAD_DEVICE")) return;
  const auto job = job_from_environment();
  const LogLevel level = !job || job->local_rank <= 0 ? LogLevel::error : LogLevel::debug;
  log_line(level, "FAIRLEAD_DEVICE=%s is unavailable: %s; %s, or set FAIRLEAD_DEVICE=auto", name, why_not,
           remedy);
}

// Creates a provider that the user requested by name.
Runtime* demand(Make make, const char* name, const char* remedy) {
  const char* why_not = "";
  Runtime* made = make(&why_not);
  if (!made) refuse(name, why_not, remedy);
  return made;
}

// The reasons why the simulated GPU replaces a missing GPU.
const char* no_cuda = "";
std::string no_rocm;

// Results on simulated GPUs must not pass for those of real ones. One rank warns for all, since a job that
// got no GPUs usually got them on no node. Programs that use no GPU need not know.
void warn_of_simulation() {
  if (said_before("simulation")) return;
  const auto job = job_from_environment();
  const LogLevel level = !job || job->rank <= 0 ? LogLevel::warn
                         : job->local_rank <= 0 ? LogLevel::info
                                                : LogLevel::debug;
  log_line(level,
           "%s, so GPUs are simulated and timings are not valid: %s; FAIRLEAD_DEVICE=sim simulates them "
           "without this message",
           words_for_unusable_gpus().c_str(), why_simulated().c_str());
}

constexpr const char* rocm_remedy = "check that rocminfo lists a GPU and HIP_VISIBLE_DEVICES shows it";

Runtime* choose() {
  const std::string& wanted = options().device;
  if (wanted == "none") return nullptr;
  if (wanted == "sim") return make_sim();
  if (wanted == "cuda")
    return demand(make_cuda, "cuda", "check that nvidia-smi lists a GPU and CUDA_VISIBLE_DEVICES shows it");
  if (wanted == "rocm") return demand(make_hip, "rocm", rocm_remedy);

  // This function does not count devices: that would initialise the driver in every process, including those
  // without GPU work, and in_use() could no longer distinguish the two.
  const char* why_not = "";
  if (Runtime* cuda = make_cuda(&no_cuda)) return cuda;
  if (Runtime* rocm = make_hip(&why_not)) return rocm;
  no_rocm = why_not;
  return make_sim();
}

Runtime* watched(Runtime* chosen) {
  const auto host_may_read = [](const void* address) {
    Allocation memory;
    return runtime()->query(address, &memory) == Error::none &&
           (memory.kind == MemoryKind::pinned || memory.kind == MemoryKind::managed);
  };
  const auto is_pageable = [](const void* address) {
    Allocation memory;
    return runtime()->query(address, &memory) != Error::none || memory.kind == MemoryKind::host;
  };
  const auto is_busy = [](const void* native) {
    Stream stream;
    int device = 0;
    if (runtime()->adopt_stream(const_cast<void*>(native), &stream, &device) != Error::none) return false;
    const bool busy = runtime()->query_stream(stream) == Error::not_ready;
    (void)BlockingDriverCalls::of_what_is_gone()->destroy_stream(stream);
    return busy;
  };
  if (chosen) program::watch({chosen->name(), host_may_read, is_pageable, is_busy});
  return chosen;
}

// Replaced at most once, before the first GPU call.
std::atomic<Runtime*>& choice() {
  static std::atomic<Runtime*> chosen = watched(choose());
  return chosen;
}

}  // namespace

Runtime* whole_runtime() {
  return choice().load(std::memory_order_acquire);
}

PromptRuntime* runtime() {
  return whole_runtime();
}

PromptRuntime* required_runtime() {
  static std::mutex mutex;
  static std::atomic<bool> settled = false;
  if (settled.load(std::memory_order_acquire)) return runtime();
  std::lock_guard lock(mutex);
  std::string why_not;
  if (PromptRuntime* chosen = runtime(); chosen && !chosen->open(&why_not)) {
    if (options().device != "auto") {
      refuse(chosen->name(), why_not.c_str(), rocm_remedy);
      return nullptr;
    }
    no_rocm = why_not;
    choice().store(watched(make_sim()), std::memory_order_release);
  }
  if (options().device == "auto" && runtime()->name() == std::string_view("sim")) warn_of_simulation();
  settled.store(true, std::memory_order_release);
  return runtime();
}

std::string why_simulated() {
  const bool instead = options().device == "auto" && runtime()->name() == std::string_view("sim");
  return instead ? std::string("no CUDA (") + no_cuda + "), no ROCm (" + no_rocm + ")" : "";
}

const char* to_string(Error error) {
  switch (error) {
    case Error::none:
      return "success";
    case Error::not_ready:
      return "not ready";
    case Error::not_initialized:
      return "not initialised";
    case Error::invalid_value:
      return "invalid value";
    case Error::out_of_memory:
      return "out of memory";
    case Error::not_supported:
      return "not supported";
    case Error::peer_unavailable:
      return "peer access unavailable";
    case Error::already_mapped:
      return "already mapped";
    case Error::not_found:
      return "not found";
    case Error::failed:
      return "failed";
    case Error::capturing:
      return "refused during a capture";
  }
  return "unknown error";
}

const char* to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::host:
      return "host";
    case MemoryKind::pinned:
      return "pinned";
    case MemoryKind::device:
      return "device";
    case MemoryKind::managed:
      return "managed";
  }
  return "unknown";
}

}  // namespace fairlead::device
