// SPDX-License-Identifier: Apache-2.0
//
// Words as text that a shell reads the same.

#pragma once

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <vector>

namespace fairlead {

// Quoted only where a shell would need it.
inline std::string shell_quote(const std::string& word) {
  auto harmless = [](unsigned char c) { return std::isalnum(c) || std::strchr("@%+=:,./-_^", c); };
  if (!word.empty() && std::all_of(word.begin(), word.end(), harmless)) return word;
  std::string quoted = "'";
  for (char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

inline std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quote(word);
  return line;
}

}  // namespace fairlead
