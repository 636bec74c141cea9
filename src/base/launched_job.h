// SPDX-License-Identifier: Apache-2.0
//
// The information that a launcher passes to its ranks in the environment, read without MPI: whether this
// process is a rank, which one, and for which MPI ABI; and what an MPI needs of a launcher that starts any
// program. launchers.def has one row per launcher.

#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace fairlead {

struct Job {
  const char* launcher;  // "Open MPI", "Slurm", ...
  std::string abi;       // the MPI ABI of the launcher, "" if it serves several
  int rank = -1;
  int size = -1;
  int local_rank = -1;  // -1 if the launcher does not pass it
  int local_size = -1;  // ranks of this node; -1 if the launcher does not pass it
  std::string id = {};  // distinguishes this job from others on the node; "" if the launcher has no id

  // The processes that it started, as far as its variables tell.
  int processes() const { return std::max(size, local_size); }
};

// A row of FAIRLEAD_PMI, which describes the fields.
struct Pmi {
  const char *launcher, *abi, *command, *word, *list, *variables, *libraries;

  bool offered() const;  // is one of the variables set?
};

// Returns null if the launcher needs no words to start ranks of this ABI, or none are known.
const Pmi* find_pmi(const std::string& launcher, const std::string& abi);

// Returns every launcher whose variables are set, in the order of launchers.def; several if one started
// another.
std::vector<Job> jobs_from_environment();

// Returns the first of them; nothing outside a launched job.
std::optional<Job> job_from_environment();

}  // namespace fairlead
