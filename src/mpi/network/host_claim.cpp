// SPDX-License-Identifier: Apache-2.0
//
// What the host MPI, the variables that switch its GPU support, and the libraries that it has loaded say.

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

#include "mpi/abi/host_version.h"
#include "mpi/network/host_trial.h"

namespace fairlead::mpi::network {
namespace {

// The functions by which MPIs tell whether they handle a provider's memory: those of Open MPI and MVAPICH
// take no argument, that of MPICH and Cray MPICH takes a number. No MPI handles simulated GPUs; one that the
// tests put in front of it does.
struct Question {
  const char* provider;
  const char* function;
  int kind;  // negative: no argument
};
constexpr Question questions[] = {
    {"cuda", "MPIX_Query_cuda_support", -1}, {"cuda", "MPIX_GPU_query_support", 0},
    {"rocm", "MPIX_Query_rocm_support", -1}, {"rocm", "MPIX_Query_hip_support", -1},
    {"rocm", "MPIX_GPU_query_support", 2},   {"sim", "MPIX_Query_sim_support", -1},
};

// The functions of some MPIs tell what was built in, not what is switched on. Each variable must have a value
// other than 0, no, off and false; an empty `version` applies to every MPI, and then it may also be unset.
struct Switch {
  const char* version;  // a part of the version string
  const char* provider;
  const char* variable;
};
constexpr Switch switches[] = {
    {"MVAPICH2", "cuda", "MV2_USE_CUDA"},
    {"MVAPICH2", "rocm", "MV2_USE_ROCM"},
    {"CRAY MPICH", "", "MPICH_GPU_SUPPORT_ENABLED"},
    {"", "cuda", "OMPI_MCA_opal_cuda_support"},
};

bool is_no(const char* value) {
  for (const char* no : {"", "0", "no", "off", "false"})
    if (strcasecmp(value, no) == 0) return true;
  return false;
}

// Negative: the host MPI lacks the function.
int answer_to(const Question& question) {
  void* function = dlsym(RTLD_DEFAULT, question.function);
  if (!function) return -1;
  if (question.kind < 0) return reinterpret_cast<int (*)()>(function)() == 1;
  int answer = 0;
  const int result = reinterpret_cast<int (*)(int, int*)>(function)(question.kind, &answer);
  return result == MPI_SUCCESS && answer != 0;
}

struct Loaded {
  std::string module;
  bool ucx = false, has_module = false;
};

int note_object(dl_phdr_info* object, size_t, void* into) {
  auto* loaded = static_cast<Loaded*>(into);
  loaded->ucx |= std::strstr(object->dlpi_name, "libucp.so") != nullptr;
  loaded->has_module |= std::strstr(object->dlpi_name, loaded->module.c_str()) != nullptr;
  return 0;
}

}  // namespace

Claim claim_of_host(const device::Runtime& gpu) {
  const std::string provider = gpu.name();
  Claim claim{false, "it has no function that tells whether it handles device memory"};
  bool no = false;
  for (const Question& question : questions) {
    const int answer = provider == question.provider ? answer_to(question) : -1;
    if (answer < 0 || no) continue;
    (answer ? claim.yes : no) = true;
    claim.words = std::string(question.function) + (answer ? " says yes" : " says no");
  }
  claim.yes &= !no;
  if (!claim.yes) return claim;
  const std::string version = host_version();
  for (const Switch& each : switches) {
    if (version.find(each.version) == std::string::npos || (*each.provider && provider != each.provider))
      continue;
    const char* value = std::getenv(each.variable);
    if (value ? is_no(value) : *each.version != '\0')
      return {false, std::string(each.variable) + " does not switch its GPU support on"};
  }
  // UCX takes device memory for host memory, and crashes, if it has no module for these GPUs.
  Loaded loaded{"libuct_" + provider};
  dl_iterate_phdr(note_object, &loaded);
  if (provider != "sim" && loaded.ucx && !loaded.has_module)
    return {false, "UCX has not loaded " + loaded.module + ".so"};
  return claim;
}

}  // namespace fairlead::mpi::network
