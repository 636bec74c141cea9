// SPDX-License-Identifier: Apache-2.0

#include "common/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/output_file.h"
#include "common/failure.h"

namespace fairlead::tools {

// Looks only: the ranks of a job ask at the same time, and a file that one made to try would be seen by
// another.
void check_file_target(const char* option, const std::string& file) {
  if (const std::string why = why_unwritable(file); !why.empty())
    throw usage(
        fmt::format("{}: cannot write {}: {}; name a file in an existing folder that you may write to",
                    option, file, why));
}

void write_to_file(const char* option, const std::string& file, const std::string& text) {
  if (const std::string why = write_file(file, text); !why.empty())
    throw Failure(exit_problem, fmt::format("{}: cannot write {}: {}", option, file, why));
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
