// SPDX-License-Identifier: Apache-2.0

#include "common/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/failure.h"

namespace fairlead::tools {

void check_file_target(const char* option, const std::string& file) {
  std::error_code error;
  const bool existed = std::filesystem::exists(file, error);
  if (!std::ofstream(file, std::ios::app))
    throw usage(
        fmt::format("{}: cannot write {}: {}; name a file in a folder that exists and that you may write",
                    option, file, std::strerror(errno)));
  if (!existed) std::filesystem::remove(file, error);
}

}  // namespace fairlead::tools
