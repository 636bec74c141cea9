// SPDX-License-Identifier: Apache-2.0
//
// What Fairlead says on stderr while a test runs.

#pragma once

#include <unistd.h>

#include <string>
#include <thread>

#include "harness/harness.h"

namespace ranks {

// What this process writes to stderr during its life; it still goes there.
class Overheard {
 public:
  Overheard() {
    int ends[2];
    if (pipe(ends) != 0) give_up("no pipe");
    stderr_ = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    listener_ = std::thread([this, from = ends[0]] {
      char part[4096];
      for (ssize_t length; (length = read(from, part, sizeof part)) > 0;) {
        text_.append(part, static_cast<size_t>(length));
        if (write(stderr_, part, static_cast<size_t>(length)) != length) break;
      }
      close(from);
    });
  }
  ~Overheard() { end(); }
  Overheard(const Overheard&) = delete;
  Overheard& operator=(const Overheard&) = delete;

  const std::string& text() {
    end();
    return text_;
  }
  size_t count(const char* part) {
    size_t found = 0;
    for (size_t at = 0; (at = text().find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  }

 private:
  void end() {
    if (!listener_.joinable()) return;
    dup2(stderr_, STDERR_FILENO);  // closes the last writing end of the pipe
    listener_.join();
    close(stderr_);
  }

  int stderr_ = -1;
  std::string text_;
  std::thread listener_;
};

}  // namespace ranks
