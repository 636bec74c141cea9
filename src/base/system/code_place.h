// SPDX-License-Identifier: Apache-2.0
//
// A place in code from which a function was called, in the words of every report: "program+0x1234", with the
// line of the source where there is debug information.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fairlead {

struct CodePlace {
  std::string file = {};  // a path; "" if unknown
  uint64_t offset = 0;    // to which the call returns, by the addresses in the file
  std::string text() const;
  auto operator<=>(const CodePlace&) const = default;
};

// In this process; of code that is of no file, the address itself.
CodePlace place_of_code(uintptr_t address);

// The texts of these places, with " (source.cpp:12)" behind them. Runs addr2line once for each file: for
// reports of what is over.
std::vector<std::string> texts_with_lines(const std::vector<CodePlace>& places);

}  // namespace fairlead
