// SPDX-License-Identifier: Apache-2.0
//
// The statistics and the trace of a job that did not come to the end of MPI_Finalize, which reports them:
// `fairlead run` joins what its ranks on this node have recorded.

#pragma once

#include <string>

namespace fairlead::tools {

struct RunArguments;
class RecordOfRun;

// Prints and writes what was asked for, and says in words what it is: " until the job ended, without rank 2";
// "" if there was nothing to join.
std::string join_parts(const RecordOfRun& record, const RunArguments& arguments);

}  // namespace fairlead::tools
