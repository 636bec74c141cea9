// SPDX-License-Identifier: Apache-2.0
//
// Writes files that users name. Regular files, terminals and /dev/null are accepted, and pipes only where
// they are this process's own output: another pipe might have no reader. A symbolic link is not followed
// where another user may have made it. Thread-safe; never calls MPI.

#pragma once

#include <string>
#include <string_view>

namespace fairlead {

class OutputFile {
 public:
  // Makes the file, or empties it, if it is not this process's own output.
  explicit OutputFile(const std::string& path);
  ~OutputFile() { close(); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Does nothing after an error.
  void write(std::string_view text);
  // Returns an empty string, or why the file could not be written; then it is removed, so that nobody takes a
  // part for the whole.
  std::string close();

 private:
  const std::string path_;
  std::string error_;
  int file_;
};

// These two return an empty string, or why the file cannot be written. The second one looks only, and changes
// nothing.
std::string write_file(const std::string& path, std::string_view text);
std::string why_unwritable(const std::string& path);
// Removes a regular file that may be written, or empties it where that is refused: so that it does not stand
// for one that is still to be written. Leaves this process's own output alone.
void discard_file(const std::string& path);

}  // namespace fairlead
