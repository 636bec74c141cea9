// SPDX-License-Identifier: Apache-2.0
//
// Lines for stderr: on a terminal they are broken to its width, elsewhere they are not.

#pragma once

#include <cstddef>
#include <string>

namespace fairlead::tools {

// The columns of the terminal that this descriptor refers to; 0 if it is no terminal, or its width is
// unknown.
size_t terminal_columns(int descriptor);

// Writes a line to stderr, in a terminal that it does not fit broken between words.
void say(const std::string& line);

}  // namespace fairlead::tools
