// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <string>

namespace fairlead {

// What others have written, for terminals, which act on control characters.
inline std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
  return text;
}

}  // namespace fairlead
