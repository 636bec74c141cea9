// SPDX-License-Identifier: Apache-2.0
//
// What every command of `fairlead` shares: parsing with CLI11, the words used to refuse an argument, --help
// and --version, and its manual page (--help-man) from the same definitions.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

#include "common/failure.h"
#include "common/manual.h"
#include "common/words.h"

namespace fairlead::tools {

// Adds --help and --version, and what help and manual page say around the options: `usage` is the words
// after the command's name, `example` whole command lines, each indented by two blanks.
void set_up(CLI::App& app, const std::string& usage, const std::string& example);

// As --help prints them, in its order.
std::vector<OptionText> options_of(const CLI::App& app);

// False when help, the version or the manual page was asked for and printed. Throws a usage Failure of one
// line that names what was wrong and what is accepted. `rest`, where given, takes the words from the first
// that is neither an option nor its value: the program to start and its arguments.
bool parse(CLI::App& app, const Words& words, Words* rest = nullptr);

// Validators whose refusals say what is accepted.
CLI::Validator whole_number(int64_t low, int64_t high = std::numeric_limits<int64_t>::max());
CLI::Validator positive_number();
CLI::Validator words_for_a_shell();  // shell_split() takes them
CLI::Validator one_of(const std::vector<std::string>& accepted);

// Accepts all; completion offers these. What it offers is the name of a validator.
CLI::Validator suggested(const std::vector<std::string>& values);

}  // namespace fairlead::tools
