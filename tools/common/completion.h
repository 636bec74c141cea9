// SPDX-License-Identifier: Apache-2.0
//
// Completion for bash, from the definitions that --help and the manual page come from.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace fairlead::tools {

// What a command takes, words with blanks between: --flag, --option=VALUES, and =VALUES for what is no
// option. VALUES are words with commas between; @file, @folder and @program stand for names.
std::string completion_of(CLI::App& app);

// The script. Each command by its words, "bench latency", "" for `fairlead` itself, with what it takes.
std::string completion_script(const std::vector<std::pair<std::string, std::string>>& commands);

}  // namespace fairlead::tools
