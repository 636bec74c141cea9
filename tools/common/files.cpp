// SPDX-License-Identifier: Apache-2.0

#include "common/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
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

TemporaryFile::TemporaryFile(const char* name)
    : path_(std::filesystem::temp_directory_path() / (std::string(name) + "-XXXXXX")) {
  const int file = mkstemp(path_.data());
  if (file < 0) throw cannot_run(fmt::format("cannot make a file in {}; set TMPDIR", path_));
  close(file);
}

TemporaryFile::~TemporaryFile() {
  unlink(path_.c_str());
}

}  // namespace fairlead::tools
