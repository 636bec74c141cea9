// SPDX-License-Identifier: Apache-2.0
//
// Text at the width of a terminal: help and reports on stdout, lines on stderr.

#pragma once

#include <cstddef>
#include <string>

namespace fairlead::tools {

// The columns of the terminal that this descriptor refers to; 0 if it is no terminal, or its width is
// unknown.
size_t terminal_columns(int descriptor);

// The columns for text on this descriptor: those that COLUMNS names, else those of the terminal, between 60
// and 120; 80 where neither is known.
size_t text_columns(int descriptor);

// The words in lines for stdout that all begin at column `indent`.
std::string wrapped_for_stdout(const std::string& text, size_t indent);

// Writes a line to stderr, in a terminal that it does not fit broken between words.
void say(const std::string& line);

}  // namespace fairlead::tools
