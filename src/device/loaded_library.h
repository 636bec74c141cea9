// SPDX-License-Identifier: Apache-2.0
//
// Which libraries of a name has this process loaded, by whomever and from wherever? A wheel brings its own,
// under a name of its own version, and may put more into the name.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fairlead::device {

struct LoadedLibrary {
  std::string path;
  void* handle;
};

// Those whose file name begins so, and that define `function`: first the one whose function the program finds
// under this name, then in the order in which they were loaded. They stay loaded.
std::vector<LoadedLibrary> loaded_libraries(const char* file_name, const char* function);

// Grows with each library that the process loads.
uint64_t libraries_ever_loaded();

}  // namespace fairlead::device
