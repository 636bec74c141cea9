// SPDX-License-Identifier: Apache-2.0
//
// The functions by which programs ask an MPI whether it takes device memory: MPIX_Query_cuda_support and
// similar, and MPICH's MPIX_GPU_query_support. They exist whatever the host MPI has, and tell what a message
// would prove: yes for memory that Fairlead handles in this job, or for which the host MPI says yes. While
// Fairlead handles nothing (before MPI_Init, without a GPU, disabled), the host MPI answers.

#include "mpi/job/gpu_queries.h"

#include <iterator>
#include <string>

#include "base/options.h"
#include "device/runtime.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/abi/host_support.h"
#include "mpi/abi/real.h"
#include "mpi/core/interception.h"

namespace fairlead::mpi {
namespace {

constexpr const char* handled_names[] = {"cuda", "rocm"};         // in the order of HandledMemory
constexpr const char* memory_of_type[] = {"cuda", "ze", "rocm"};  // MPIX_GPU_SUPPORT_CUDA, _ZE, _HIP

HandledMemory handled_in_job{};

bool handles(const std::string& memory) {
  const HandledMemory here = handled_here();
  for (size_t i = 0; i < here.size(); ++i)
    if (memory == handled_names[i]) return here[i] || handled_in_job[i];
  return false;
}

// The host MPI's functions may call each other by the names that are Fairlead's.
thread_local bool host_is_asked = false;

bool host_says_yes(const std::string& memory) {
  if (host_is_asked) return false;
  host_is_asked = true;
  bool yes = false;
  for (const HostQuestion& question : host_questions)
    yes = yes || (memory == question.memory && answer_of_host(question) == 1);
  host_is_asked = false;
  return yes;
}

// Calls with device memory are refused, also if the host MPI could carry them.
bool forbidden() {
  return options().enabled && !options().gpu_support;
}

bool answer(const char* memory) {
  return !forbidden() && (handles(memory) || (intercepting() && host_says_yes(memory)));
}

int query(const char* memory, const char* function) {
  if (!intercepting() && !forbidden())
    if (void* next = next_function(function)) return reinterpret_cast<int (*)()>(next)();
  return answer(memory);
}

int query_type(int type, int* is_supported) {
  const bool good = type >= 0 && type < static_cast<int>(std::size(memory_of_type)) && is_supported;
  if (!good || (!intercepting() && !forbidden()))
    if (void* next = next_function("MPIX_GPU_query_support"))
      return reinterpret_cast<int (*)(int, int*)>(next)(type, is_supported);
  if (good) {
    *is_supported = answer(memory_of_type[type]);
    return MPI_SUCCESS;
  }
  int begun = 0, ended = 0;
  if (PMPI_Initialized) PMPI_Initialized(&begun);
  if (PMPI_Finalized) PMPI_Finalized(&ended);
  if (begun && !ended) PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_ARG);  // as MPICH
  return MPI_ERR_ARG;
}

}  // namespace

HandledMemory handled_here() {
  HandledMemory handled{};
  const device::PromptRuntime* runtime = options().enabled ? device::runtime() : nullptr;
  for (size_t i = 0; runtime && i < handled.size(); ++i)
    handled[i] = runtime->name() == std::string(handled_names[i]);
  return handled;
}

void set_handled_in_job(const HandledMemory& handled) {
  handled_in_job = handled;
}

}  // namespace fairlead::mpi

// The profiling names stay the host MPI's: MPICH itself calls them.

FAIRLEAD_MPIX(Query_cuda_support, ()) {
  return fairlead::mpi::query("cuda", "MPIX_Query_cuda_support");
}

FAIRLEAD_MPIX(Query_rocm_support, ()) {
  return fairlead::mpi::query("rocm", "MPIX_Query_rocm_support");
}

FAIRLEAD_MPIX(Query_hip_support, ()) {
  return fairlead::mpi::query("rocm", "MPIX_Query_hip_support");
}

FAIRLEAD_MPIX(Query_ze_support, ()) {
  return fairlead::mpi::query("ze", "MPIX_Query_ze_support");
}

FAIRLEAD_MPIX(GPU_query_support, (int gpu_type, int* is_supported)) {
  return fairlead::mpi::query_type(gpu_type, is_supported);
}
