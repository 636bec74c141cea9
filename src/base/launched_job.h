// SPDX-License-Identifier: Apache-2.0
//
// What a launcher tells its ranks through the environment, read without MPI: am I a rank, which one, and
// of which kind of MPI. One row per launcher in launchers.def.

#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fairlead {

struct Job {
  const char* launcher;  // "Open MPI", "Slurm", ...
  std::string abi;       // the MPI ABI that launcher belongs to, "" where it serves several
  int rank = -1;
  int size = -1;
  int local_rank = -1;  // -1 where the launcher does not say
  int local_size = -1;  // the same; ranks of this node
  std::string id = {};  // tells this job of others on the node; "" where the launcher does not
};

// Every launcher that left its variables here, the most telling first; several where one starts another.
std::vector<Job> jobs_from_environment();

// The first of them; empty outside a launched job.
std::optional<Job> job_from_environment();

}  // namespace fairlead
