// SPDX-License-Identifier: Apache-2.0
//
// Appends printf-formatted pieces of up to 511 bytes each to a string.

#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace fairlead::observe {

inline void append(std::string* text, const char* format, ...) __attribute__((format(printf, 2, 3)));
inline void append(std::string* text, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  *text += line;
}

}  // namespace fairlead::observe
