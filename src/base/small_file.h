// SPDX-License-Identifier: Apache-2.0
//
// Files that people write and name in an option. What is no such file, as /dev/zero or a pipe, would be read
// for ever. Thread-safe; never calls MPI.

#pragma once

#include <cstddef>
#include <string>

namespace fairlead {

constexpr size_t small_file_bytes = size_t{1} << 20;

// Appends the text of a regular file, or nothing for /dev/null, and returns an empty string; or says why not.
std::string read_small_file(const std::string& path, std::string* text);

}  // namespace fairlead
