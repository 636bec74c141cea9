// SPDX-License-Identifier: Apache-2.0
//
// Chooses the GPU provider of this process, once, and names the contract's enumerators.

#include <string>

#include "base/log.h"
#include "base/options.h"
#include "device/runtime.h"

namespace fairlead::device {
namespace {

using Make = Runtime* (*)(const char** why_not);

// Makes a provider that was asked for by name.
Runtime* demand(Make make, const char* choice, const char* remedy) {
  const char* why_not = "";
  Runtime* made = make(&why_not);
  if (!made)
    log_line(LogLevel::error, "FAIRLEAD_DEVICE=%s cannot be had: %s; %s, or set FAIRLEAD_DEVICE=auto", choice,
             why_not, remedy);
  return made;
}

Runtime* choose() {
  const std::string& wanted = options().device;
  if (wanted == "none") return nullptr;
  if (wanted == "sim") return make_sim();
  if (wanted == "cuda")
    return demand(make_cuda, "cuda", "check that nvidia-smi lists a GPU and CUDA_VISIBLE_DEVICES shows it");
  if (wanted == "rocm")
    return demand(make_hip, "rocm", "check that rocminfo lists a GPU and HIP_VISIBLE_DEVICES shows it");

  // Devices are not counted: that would initialise the driver in every process, GPU program or not, and
  // in_use() could no longer tell one from the other.
  const char *no_cuda = "", *no_rocm = "";
  if (Runtime* cuda = make_cuda(&no_cuda)) return cuda;
  if (Runtime* rocm = make_hip(&no_rocm)) return rocm;
  log_line(LogLevel::info, "GPUs are simulated: no CUDA (%s), no ROCm (%s)", no_cuda, no_rocm);
  return make_sim();
}

}  // namespace

Runtime* runtime() {
  static Runtime* const chosen = choose();
  return chosen;
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
