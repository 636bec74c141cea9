// SPDX-License-Identifier: Apache-2.0

#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fairlead {
namespace {

// Returns "" for a file whose reading ends, else a description of what it is.
std::string unsuitable_to_read(const struct stat& info) {
  const bool null_device = S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
  if (S_ISREG(info.st_mode) || null_device) return {};
  return S_ISDIR(info.st_mode) ? std::strerror(EISDIR) : "it is not a regular file";
}

// Files in /proc report no length, so this reads until the end or the limit.
std::string read_up_to_limit(int file, std::string* text) {
  std::string read_so_far;
  char piece[16 << 10];
  for (;;) {
    const ssize_t bytes = read(file, piece, sizeof piece);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return std::strerror(errno);
    if (bytes == 0) break;
    read_so_far.append(piece, static_cast<size_t>(bytes));
    if (read_so_far.size() > small_file_bytes)
      return "it is longer than " + std::to_string(small_file_bytes >> 20) + " MiB";
  }
  *text += read_so_far;
  return {};
}

}  // namespace

std::string read_small_file(const std::string& path, std::string* text) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // opening a pipe does not block
  struct stat info;
  std::string why;
  if (file < 0 || fstat(file, &info) != 0)
    why = std::strerror(errno);
  else if (why = unsuitable_to_read(info); why.empty())
    why = read_up_to_limit(file, text);
  if (file >= 0) close(file);
  return why.empty() ? why : "cannot read " + path + ": " + why;
}

}  // namespace fairlead
