// SPDX-License-Identifier: Apache-2.0
//
// Exchanges the cores of the ranks of a node before they start. There is no MPI yet, so each rank writes a
// line to a file in shared memory and reads those of the others. The last rank removes the file.

#pragma once

#include <string>
#include <vector>

#include "base/launched_job.h"
#include "run/cpus.h"

namespace fairlead::tools {

// The same in all ranks of a job on a node, and in no other job, as part of a file's name.
std::string name_of_job(const Job& job);

// The cores of each local rank, in their order; empty where the launcher does not tell enough, or not all
// came within a few seconds.
std::vector<Cpus> cpus_of_local_ranks(const Job& job, const Cpus& mine);

}  // namespace fairlead::tools
