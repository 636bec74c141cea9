// SPDX-License-Identifier: Apache-2.0

#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fairlead {
namespace {

constexpr const char* foreign_link = "it is a symbolic link in a folder in which others may write";

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

bool others_may_write_in(const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) return false;
  return (info.st_mode & (S_IWGRP | S_IWOTH)) != 0 || (info.st_uid != geteuid() && info.st_uid != 0);
}

// The descriptor of this process's own output, or -1. /dev/stdout and /dev/stderr may be pipes, or files of
// which the program has written a part.
int own_output(const struct stat& info) {
  struct stat own;
  for (int number : {STDOUT_FILENO, STDERR_FILENO})
    if (fstat(number, &own) == 0 && own.st_dev == info.st_dev && own.st_ino == info.st_ino) return number;
  return -1;
}

// Returns "" for what may be written to, else a description of what it is.
std::string unsuitable(const struct stat& info) {
  if (S_ISREG(info.st_mode) || S_ISCHR(info.st_mode) || own_output(info) >= 0) return {};
  return S_ISDIR(info.st_mode) ? std::strerror(EISDIR) : "it is not a regular file";
}

// Returns the descriptor, or -1 and why not. Opening a pipe does not block.
int open_to_write(const std::string& path, std::string* error) {
  const int follow = others_may_write_in(folder_of(path)) ? O_NOFOLLOW : 0;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | follow, 0666);
  struct stat info;
  // What is written to it follows what is there.
  const bool is_regular = file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  if (const int own = is_regular ? own_output(info) : -1; own >= 0) {
    close(file);
    const int shared = fcntl(own, F_DUPFD_CLOEXEC, 0);
    if (shared < 0) *error = std::strerror(errno);
    return shared;
  }
  if (file < 0 || fstat(file, &info) != 0)
    *error = errno == ELOOP && follow ? foreign_link
             : errno == ENXIO         ? "it has no reader"
                                      : std::strerror(errno);
  else if (*error = unsuitable(info); error->empty() && is_regular && ftruncate(file, 0) != 0)
    *error = std::strerror(errno);
  if (error->empty()) {
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
    return file;
  }
  if (file >= 0) close(file);
  return -1;
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path), file_(open_to_write(path, &error_)) {}

void OutputFile::write(std::string_view text) {
  while (error_.empty() && !text.empty()) {
    const ssize_t bytes = ::write(file_, text.data(), text.size());
    if (bytes >= 0)
      text.remove_prefix(static_cast<size_t>(bytes));
    else if (errno != EINTR)
      error_ = std::strerror(errno);
  }
}

// Some file systems report only here that a disk is full.
std::string OutputFile::close() {
  if (file_ < 0) return error_;
  struct stat ours, named;
  const bool is_there = fstat(file_, &ours) == 0 && S_ISREG(ours.st_mode) &&
                        lstat(path_.c_str(), &named) == 0 && named.st_ino == ours.st_ino &&
                        named.st_dev == ours.st_dev;
  if (::close(file_) != 0 && error_.empty()) error_ = std::strerror(errno);
  file_ = -1;
  if (!error_.empty() && is_there) unlink(path_.c_str());
  return error_;
}

std::string write_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  return file.close();
}

std::string why_unwritable(const std::string& path) {
  const std::string folder = folder_of(path);
  struct stat info;
  const bool is_link = lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  if (is_link && others_may_write_in(folder)) return foreign_link;
  const bool exists = stat(path.c_str(), &info) == 0;
  if (std::string why = exists ? unsuitable(info) : ""; !why.empty()) return why;
  if (is_link && !exists) return {};  // writing makes the file that the link names
  const int refused = exists ? access(path.c_str(), W_OK) : access(folder.c_str(), W_OK | X_OK);
  return refused == 0 ? "" : std::strerror(errno);
}

void discard_file(const std::string& path) {
  struct stat info;
  if (!why_unwritable(path).empty() || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      own_output(info) >= 0)
    return;
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || unlink(path.c_str()) != 0)
    OutputFile(path).close();
}

}  // namespace fairlead
