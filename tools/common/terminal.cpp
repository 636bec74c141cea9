// SPDX-License-Identifier: Apache-2.0

#include "common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "common/words.h"

namespace fairlead::tools {

size_t terminal_columns(int descriptor) {
  winsize size{};
  return isatty(descriptor) && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void say(const std::string& line) {
  const size_t columns = terminal_columns(STDERR_FILENO);
  const bool fits = columns == 0 || line.size() <= columns;
  std::fprintf(stderr, "%s\n", (fits ? line : wrapped(line, 0, "  ", columns)).c_str());
}

}  // namespace fairlead::tools
