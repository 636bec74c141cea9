// SPDX-License-Identifier: Apache-2.0

#include "base/launched_job.h"

#include <cstdlib>

namespace fairlead {
namespace {

// A row applies when every variable it names is set; "" where the launcher has no such variable.
struct LauncherVariables {
  const char* launcher;
  const char* abi;
  const char* rank;
  const char* size;
  const char* local_rank;
};

constexpr LauncherVariables launchers[] = {
    {"Open MPI", "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"MVAPICH", "mpich", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
    // PMI_RANK alone proves nothing: Slurm sets it for every MPI.
    {"Hydra", "mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"PALS", "mpich", "PALS_RANKID", "", "PALS_LOCAL_RANKID"},
    {"Flux", "", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID"},
    {"Slurm", "", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
    {"PMIx", "", "PMIX_RANK", "", ""},
};

// -1 where the variable is absent or no number.
int number(const char* variable) {
  const char* text = std::getenv(variable);
  return text && *text >= '0' && *text <= '9' ? std::atoi(text) : -1;
}

bool missing(const char* variable) {
  return *variable && number(variable) < 0;
}

}  // namespace

std::vector<Job> jobs_from_environment() {
  std::vector<Job> jobs;
  for (const LauncherVariables& row : launchers) {
    if (missing(row.rank) || missing(row.size) || missing(row.local_rank)) continue;
    Job job{row.launcher, row.abi, number(row.rank), number(row.size), number(row.local_rank)};
    // A scheduler's batch or interactive shell is a job of one task too: not what is asked here.
    bool scheduler_shell = job.abi.empty() && job.size == 1;
    if (!scheduler_shell) jobs.push_back(job);
  }
  return jobs;
}

std::optional<Job> job_from_environment() {
  std::vector<Job> jobs = jobs_from_environment();
  return jobs.empty() ? std::nullopt : std::optional(jobs.front());
}

}  // namespace fairlead
