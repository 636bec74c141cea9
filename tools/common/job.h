// SPDX-License-Identifier: Apache-2.0
//
// What a launcher tells its ranks through the environment, read without MPI: am I a rank, which one, and
// of which kind of MPI. One row per launcher in job.cpp.

#pragma once

#include <optional>
#include <string>

#include "common/failure.h"

namespace fairlead::tools {

struct Job {
  const char* launcher;  // "Open MPI", "Slurm", ...
  std::string abi;       // the MPI ABI that launcher belongs to, "" where it serves several
  int rank = -1;
  int size = -1;
  int local_rank = -1;  // -1 where the launcher does not say
};

// Empty outside a launched job.
std::optional<Job> job_from_environment();

// Prints the failure as one line on stderr, from one rank only where all of a job find the same thing wrong,
// and returns the exit code.
int complain(const std::string& command, const Failure& failure);

}  // namespace fairlead::tools
