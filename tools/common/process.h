// SPDX-License-Identifier: Apache-2.0
//
// Starts other programs: replaces this process by one, or reads the output of one.

#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "common/words.h"

namespace fairlead::tools {

constexpr int timed_out = 124;

struct Captured {
  // Exit code; 128 + signal where one ended it; 127 where it could not start; timed_out where it was ended.
  int status = -1;
  std::string output;
};

enum class Stderr { merge, pass, drop };

// Runs a program to its end; stdin is empty. With a limit it runs in a process group of its own, which is
// ended when the time is over: first asked to, as launchers need to end their ranks, then killed.
Captured capture(const Words& command, Stderr errors,
                 const std::vector<std::pair<std::string, std::string>>& environment = {},
                 std::chrono::seconds limit = {});

// Runs a program to its end in the place of this process, whose files and terminal it has; signals that are
// sent to this process alone are passed on. Returns as Captured::status does; 128 + signal also where one
// interrupted this process. SIGUSR1 calls `asked`, which says whether it is passed on, too. Where stdout is
// no terminal, `relays` has the program write through this process, which then knows that it could not be
// written: launchers do not say so.
int run_through(const Words& command, const std::function<bool()>& asked, bool relays = false);

// Replaces this process; returns only by throwing a usage Failure.
[[noreturn]] void become(const Words& command);

// The file a shell would run for `name`: as it is when it holds a slash, else the first on PATH. Empty if
// none.
std::string find_on_path(const std::string& name);
bool is_executable(const std::string& path);
// Where that finds none: what is in its place, and what to do.
std::string why_no_program(const std::string& name);

}  // namespace fairlead::tools
