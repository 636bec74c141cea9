// SPDX-License-Identifier: Apache-2.0
//
// Checks files that an option names before long work starts, writes them, and makes temporary files.

#pragma once

#include <string>

namespace fairlead::tools {

// Throws a usage Failure where the file could not be written. Leaves it as it is, also where there is none.
void check_file_target(const char* option, const std::string& file);
// Throws a Failure where it cannot be written.
void write_to_file(const char* option, const std::string& file, const std::string& text);

// A new empty file whose name begins so, in TMPDIR, as long as this lives. Throws a Failure where none can be
// made.
class TemporaryFile {
 public:
  explicit TemporaryFile(const char* name);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace fairlead::tools
