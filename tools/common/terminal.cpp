// SPDX-License-Identifier: Apache-2.0

#include "common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/words.h"

namespace fairlead::tools {

size_t terminal_columns(int descriptor) {
  winsize size{};
  return isatty(descriptor) && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

size_t text_columns(int descriptor) {
  const char* given = std::getenv("COLUMNS");
  size_t columns = given ? std::strtoul(given, nullptr, 10) : 0;
  if (columns == 0) columns = terminal_columns(descriptor);
  return columns == 0 ? 80 : std::clamp<size_t>(columns, 60, 120);
}

std::string wrapped_for_stdout(const std::string& text, size_t indent) {
  return wrapped(text, indent, std::string(indent, ' '), text_columns(STDOUT_FILENO));
}

void say(const std::string& line) {
  const size_t columns = terminal_columns(STDERR_FILENO);
  const bool fits = columns == 0 || line.size() <= columns;
  std::fprintf(stderr, "%s\n", (fits ? line : wrapped(line, 0, "  ", columns)).c_str());
}

}  // namespace fairlead::tools
