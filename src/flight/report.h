// SPDX-License-Identifier: Apache-2.0
//
// Says in words why a job does not go on: who waits for whom, and where its ranks are.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "flight/view.h"

namespace fairlead::flight {

// "MPI_Recv from rank 1, tag 7"; "MPI_Allreduce of MPI_SUM"; "MPI_Waitall for MPI_Irecv ... and 3 more".
std::string words_for(const JobView& job, const RankView& rank, const Call& call);
// "in MPI_Recv from rank 1, tag 7", "outside MPI; its last call was ...", "has died in ...".
std::string state_of(const JobView& job, const RankView& rank);

// One sentence each, the most telling first; none if nobody waits.
std::vector<std::string> findings(const JobView& job);

// The words for a call site, if not those of CodePlace::text().
using Locate = std::function<std::string(const RankView& rank, const Call& call)>;

// The findings, then a line for each rank, and its last `calls` calls.
std::string as_text(const JobView& job, size_t calls, const Locate& locate);

// What a rank did last whose job is over.
std::string end_of(const JobView& job, const RankView& rank, size_t calls, const Locate& locate);

std::string words_for_ranks(const std::vector<int>& ranks);  // "ranks 0-2 and 5"

}  // namespace fairlead::flight
