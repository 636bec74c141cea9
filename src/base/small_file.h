// SPDX-License-Identifier: Apache-2.0
//
// Reads files that users write and name in an option. Only regular files are accepted: reading /dev/zero or a
// pipe might never end. Thread-safe; never calls MPI.

#pragma once

#include <cstddef>
#include <string>

namespace fairlead {

constexpr size_t small_file_bytes = size_t{1} << 20;

// Appends the text of a regular file, or nothing for /dev/null, and returns an empty string; or returns the
// error.
std::string read_small_file(const std::string& path, std::string* text);

}  // namespace fairlead
