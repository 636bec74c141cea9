// SPDX-License-Identifier: Apache-2.0

#include "run/gpu_aware.h"

#include <unistd.h>

#include <cstdlib>

#include "base/options.h"
#include "common/places.h"
#include "device/runtime.h"
#include "run/program.h"

namespace fairlead::tools {
namespace {

// docs/use/programs.md says who asks by which. A program that passes device memory only on request is
// included where the request has no other meaning.
struct Answer {
  const char* variable;
  const char* value;
  const char* provider;  // "": any
  const char* abi;       // "": any
};
constexpr Answer answers[] = {
    {"MPICH_GPU_SUPPORT_ENABLED", "1", "", "mpich"},  // LAMMPS, PyTorch
    {"TPETRA_ASSUME_GPU_AWARE_MPI", "1", "", ""},     // Trilinos
    {"GMX_ENABLE_DIRECT_GPU_COMM", "1", "", ""},      // GROMACS
    {"JULIA_MPI_HAS_CUDA", "true", "cuda", ""},       // MPI.jl
    {"JULIA_MPI_HAS_ROCM", "true", "rocm", ""},      {"MPI4JAX_USE_CUDA_MPI", "1", "cuda", ""},
    {"PYLOPS_MPI_CUDA_AWARE", "1", "cuda", ""},
};

bool fits(const char* wanted, const std::string& is) {
  return !*wanted || wanted == is;
}

// There MPICH_GPU_SUPPORT_ENABLED switches GPU support of its own on, and MPI_Init fails if that is not
// linked. What MPI a script loads is not known.
bool may_be_cray(const Program& program) {
  return is_cray_library(program.mpi_library) || std::getenv("CRAY_MPICH_VERSION") ||
         std::getenv("CRAY_MPICH_DIR");
}

// The kernel's own amdgpu lacks the calls of the older one of ROCm's two ways to share memory, its default
// before 7.2. That of AMD's packages has them, and a version.
bool driver_is_the_kernels() {
  return access("/sys/module/amdgpu", F_OK) == 0 && access("/sys/module/amdgpu/version", F_OK) != 0;
}

}  // namespace

std::map<std::string, std::string> gpu_aware_variables(const Program& program, const std::string& abi) {
  std::map<std::string, std::string> variables;
  const device::Runtime* runtime =
      options().enabled && options().gpu_support ? device::whole_runtime() : nullptr;
  if (!runtime || runtime->name() == std::string("sim")) return variables;
  for (const Answer& answer : answers) {
    const bool cray = answer.variable == std::string("MPICH_GPU_SUPPORT_ENABLED") && may_be_cray(program);
    if (fits(answer.provider, runtime->name()) && fits(answer.abi, abi) && !cray &&
        !std::getenv(answer.variable))
      variables[answer.variable] = answer.value;
  }
  constexpr const char* older_ipc = "HSA_ENABLE_IPC_MODE_LEGACY";
  if (runtime->name() == std::string("rocm") && driver_is_the_kernels() && !std::getenv(older_ipc))
    variables[older_ipc] = "0";
  // Folders are put before those that the variables have.
  auto prepend = [&](const char* variable, const std::string& folder) {
    const char* others = std::getenv(variable);
    if (!folder.empty()) variables[variable] = folder + (others && *others ? std::string(":") + others : "");
  };
  if (abi == "openmpi") {
    prepend("PATH", told_folder(abi, runtime->name(), "bin"));
    prepend("CPATH", told_folder(abi, runtime->name(), "include"));
  }
  return variables;
}

}  // namespace fairlead::tools
