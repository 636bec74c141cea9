// SPDX-License-Identifier: Apache-2.0
//
// Text as lists of words: splits command lines and other text, and breaks lines for a terminal.

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/system/shell_line.h"

namespace fairlead::tools {

using Words = std::vector<std::string>;

// Splits as a POSIX shell does: blanks separate, '...' "..." and backslash protect. Throws a usage Failure
// for an open quote; expands nothing.
Words shell_split(const std::string& text);

// What stands between these characters, empty pieces left out.
Words split(const std::string& text, const char* separators = " \t\r\n");

std::string lower(std::string text);

// "0-3,8": numbers in ascending order, as the kernel writes them.
std::string ranges_in_words(const std::set<int>& numbers);
// "GPU 2", "GPUs 0-3,5"; "" for none.
std::string gpus_in_words(const std::set<int>& numbers);

// "64 KiB", "1.5 GiB": with one digit after the point, unless that is 0.
std::string size_in_words(uint64_t bytes);

// "; did you mean --ranks?" where one of the names is near; else nothing.
std::string did_you_mean(const std::string& word, const Words& names);

// Its words in lines of at most `columns`. The first begins at `column`, all others behind `margin`.
std::string wrapped(const std::string& text, size_t column, const std::string& margin, size_t columns = 80);

}  // namespace fairlead::tools
