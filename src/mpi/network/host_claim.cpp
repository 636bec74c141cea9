// SPDX-License-Identifier: Apache-2.0
//
// What the host MPI, what switches its GPU support on and off, and the UCX that it has loaded say.

#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "base/environment.h"
#include "mpi/abi/host_support.h"
#include "mpi/abi/host_version.h"
#include "mpi/network/host_trial.h"
#include "mpi/network/ucx_transports.h"

namespace fairlead::mpi::network {
namespace {

// Against the quirk support_built_not_on: each variable must have a value other than 0, no, off and false.
struct Switch {
  const char* version;  // a part of the version string
  const char* provider;
  const char* variable;
};
constexpr Switch switches[] = {
    {"MVAPICH2", "cuda", "MV2_USE_CUDA"},
    {"MVAPICH2", "rocm", "MV2_USE_ROCM"},
    {"CRAY MPICH", "", "MPICH_GPU_SUPPORT_ENABLED"},
    {"Intel(R) MPI", "", "I_MPI_OFFLOAD"},
};

// Likewise in Open MPI 4, which keeps in a variable what its parameter is, by any of its names, on the
// command line, in the environment or in a file. MPI_T tells the parameter as well, but takes 200 ms to
// start.
struct Parameter {
  const char* provider;
  const char* symbol;  // a bool
};
constexpr Parameter parameters[] = {{"cuda", "opal_cuda_support"}, {"sim", "sim_gpu_support"}};

bool is_no(const char* value) {
  for (const char* no : {"", "0", "no", "off", "false"})
    if (strcasecmp(value, no) == 0) return true;
  return false;
}

struct Loaded {
  std::string module;
  std::string ucx;  // where libucp is; "" if it is not loaded
  bool has_module = false;
};

int note_object(dl_phdr_info* object, size_t, void* into) {
  auto* loaded = static_cast<Loaded*>(into);
  if (std::strstr(object->dlpi_name, "libucp.so")) loaded->ucx = object->dlpi_name;
  loaded->has_module |= std::strstr(object->dlpi_name, loaded->module.c_str()) != nullptr;
  return 0;
}

// Why UCX does not handle the memory of these GPUs (quirk ucx_without_gpus); "" if it does, or is not loaded.
// No UCX has a module for simulated GPUs.
std::string why_ucx_does_not(const std::string& provider, const std::string& version) {
  Loaded loaded{"libuct_" + provider, "", provider == "sim"};
  dl_iterate_phdr(note_object, &loaded);
  if (loaded.ucx.empty()) return {};
  if (!loaded.has_module) return "UCX has not loaded " + loaded.module + ".so";
  const bool open_mpi = version.find("Open MPI") != std::string::npos;
  const std::string transports = ucx_transports(loaded.ucx.c_str(), open_mpi ? "MPI" : nullptr);
  if (copies_device_memory(transports, provider)) return {};
  return "UCX_TLS=" + transports + " leaves " + provider + "_copy out";
}

}  // namespace

Claim claim_of_host(const device::PromptRuntime& gpu) {
  const std::string provider = gpu.name();
  Claim claim{false, "it has no function to ask"};
  bool no = false;
  for (const HostQuestion& question : host_questions) {
    const int answer = provider == question.memory ? answer_of_host(question) : -1;
    if (answer < 0 || no) continue;
    (answer ? claim.yes : no) = true;
    claim.words = std::string(question.function) + (answer ? " says yes" : " says no");
  }
  claim.yes &= !no;
  if (!claim.yes) return claim;
  for (const Parameter& each : parameters)
    if (const auto* on = static_cast<const bool*>(dlsym(RTLD_DEFAULT, each.symbol));
        on && provider == each.provider && !*on)
      return {false, std::string(each.symbol) + " is off"};
  const std::string version = host_version();
  for (const Switch& each : switches) {
    if (version.find(each.version) == std::string::npos || (*each.provider && provider != each.provider))
      continue;
    const char* value = environment_variable(each.variable);
    if (!value || is_no(value))
      return {false, std::string(each.variable) + " does not switch its GPU support on"};
  }
  if (std::string why = why_ucx_does_not(provider, version); !why.empty()) return {false, why};
  return claim;
}

}  // namespace fairlead::mpi::network
