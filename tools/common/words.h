// SPDX-License-Identifier: Apache-2.0
//
// Command lines as lists of words, and the way back to text that a shell reads the same.

#pragma once

#include <string>
#include <vector>

namespace fairlead::tools {

using Words = std::vector<std::string>;

// Quoted only where a shell would need it.
std::string shell_quote(const std::string& word);
std::string shell_line(const Words& words);

// Splits as a POSIX shell does: blanks separate, '...' "..." and backslash protect. Throws a usage Failure
// for an open quote; expands nothing.
Words shell_split(const std::string& text);

}  // namespace fairlead::tools
