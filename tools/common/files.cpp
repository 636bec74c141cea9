// SPDX-License-Identifier: Apache-2.0

#include "common/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/failure.h"

namespace fairlead::tools {

// Looks only: the ranks of a job ask at the same time, and a file that one made to try would be seen by
// another.
void check_file_target(const char* option, const std::string& file) {
  const std::filesystem::path path(file);
  std::error_code error;
  int wrong = 0;
  if (std::filesystem::is_directory(path, error)) {
    wrong = EISDIR;
  } else {
    const bool exists = std::filesystem::exists(path, error);
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (access((exists ? path : folder).c_str(), exists ? W_OK : W_OK | X_OK) != 0) wrong = errno;
  }
  if (wrong != 0)
    throw usage(
        fmt::format("{}: cannot write {}: {}; name a file in a folder that exists and that you may write",
                    option, file, std::strerror(wrong)));
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
