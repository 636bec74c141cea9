// SPDX-License-Identifier: Apache-2.0

#include "common/failure.h"

#include <unistd.h>

#include <iostream>

#include "base/launched_job.h"
#include "common/terminal.h"

namespace fairlead::tools {

int complain(const std::string& command, const Failure& failure) {
  std::cout.flush();
  auto job = job_from_environment();
  // Every rank was given the same request; what a machine lacks is the same for all ranks of a node.
  bool of_node = failure.code() == exit_cannot_run && job && job->local_rank >= 0;
  // Launchers end all ranks when one of them fails: the others leave the first the time to speak.
  if (job && (of_node ? job->local_rank : job->rank) > 0)
    usleep(300'000);
  else
    say(command + ": " + failure.what());
  return failure.code();
}

}  // namespace fairlead::tools
