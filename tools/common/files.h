// SPDX-License-Identifier: Apache-2.0
//
// Files that an option names, looked at before anything takes long.

#pragma once

#include <string>

namespace fairlead::tools {

// Throws a usage Failure where the file could not be written. Leaves it as it is, also where there is none.
void check_file_target(const char* option, const std::string& file);

}  // namespace fairlead::tools
