// SPDX-License-Identifier: Apache-2.0
//
// A command that fails throws a Failure; main() prints its line and returns its exit code.

#pragma once

#include <stdexcept>
#include <string>

namespace fairlead::tools {

enum ExitCode : int {
  exit_success = 0,
  exit_problem = 1,     // ran, and found something wrong: failed validation, a rank that crashed
  exit_usage = 2,       // the request makes no sense; nothing was started
  exit_cannot_run = 77  // the request is fine, this machine cannot serve it
};

class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& line) : std::runtime_error(line), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

inline Failure usage(const std::string& line) {
  return {exit_usage, line};
}
inline Failure cannot_run(const std::string& line) {
  return {exit_cannot_run, line};
}

// Throws a Failure where stdout could not be written, or not all of it. Call it when all is printed.
void require_stdout();

// Says the failure on stderr, as one line (common/terminal.h), from one rank only where all of a job find the
// same thing wrong, and returns the exit code.
int complain(const std::string& command, const Failure& failure);

}  // namespace fairlead::tools
