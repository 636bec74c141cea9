// SPDX-License-Identifier: Apache-2.0
//
// Starting other programs: becoming one, or reading what one prints.

#pragma once

#include <string>
#include <utility>

#include "common/words.h"

namespace fairlead::tools {

struct Captured {
  int status = -1;  // exit code; 128 + signal where one ended it; 127 where it could not start
  std::string output;
};

enum class Stderr { merge, pass, drop };

// Runs a program to its end. stdin is empty.
Captured capture(const Words& command, Stderr errors,
                 const std::vector<std::pair<std::string, std::string>>& environment = {});

// Replaces this process; returns only by throwing a usage Failure.
[[noreturn]] void become(const Words& command);

// The file a shell would run for `name`: as it is when it holds a slash, else the first on PATH. Empty if
// none.
std::string find_on_path(const std::string& name);
bool is_executable(const std::string& path);

}  // namespace fairlead::tools
