// SPDX-License-Identifier: Apache-2.0
//
// Lines for whoever reads stderr: a program gets each as one, a terminal as many as it takes.

#pragma once

#include <cstddef>
#include <string>

namespace fairlead::tools {

// Of the terminal that this descriptor is; 0 where it is none, or does not tell.
size_t terminal_columns(int descriptor);

// Writes a line to stderr, in a terminal that it does not fit broken between words.
void say(const std::string& line);

}  // namespace fairlead::tools
