// SPDX-License-Identifier: Apache-2.0

#include "common/failure.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/launched_job.h"
#include "common/terminal.h"

namespace fairlead::tools {

void require_stdout() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout) return;
  // The error may have been that of an earlier write.
  throw Failure(exit_problem, std::string("cannot write to standard output") +
                                  (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
}

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
