// SPDX-License-Identifier: Apache-2.0
//
// Finds the libraries of a given name that this process has loaded, no matter which code loaded them and from
// where. A Python wheel contains its own copy, with its own version number and possibly a suffix in the file
// name.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fairlead::device {

struct LoadedLibrary {
  std::string path;
  void* handle;
};

// Returns the libraries whose file name begins with `file_name` and that define `function`. The first is the
// one that the program's symbol lookup finds; the others follow in load order. The function keeps them
// loaded.
std::vector<LoadedLibrary> loaded_libraries(const char* file_name, const char* function);

// Increases with each library that the process loads.
uint64_t libraries_ever_loaded();

}  // namespace fairlead::device
