// SPDX-License-Identifier: Apache-2.0

#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "base/environment.h"

namespace fairlead {
namespace {

constexpr const char* level_names[] = {"error", "warn", "info", "debug", "trace"};
constexpr int repeats_shown = 3;

std::atomic<int> rank{-1}, size{0};

// Reads the environment directly, not through options(), because reading the options may itself log.
LogLevel threshold() {
  static const LogLevel level = [] {
    const char* text = environment_variable("FAIRLEAD_LOG");
    for (int i = 0; text && i < 5; ++i)
      if (strcasecmp(text, level_names[i]) == 0) return static_cast<LogLevel>(i);
    return LogLevel::warn;
  }();
  return level;
}

// Returns how often this exact line was requested, including this time.
int occurrences(const char* line) {
  static std::mutex mutex;
  static auto* counts = new std::map<std::string, int>;
  std::lock_guard lock(mutex);
  return ++(*counts)[line];
}

}  // namespace

bool log_enabled(LogLevel level) {
  return level <= threshold();
}

void set_log_rank(int new_rank, int new_size) {
  rank = new_rank;
  size = new_size;
}

void log_line(LogLevel level, const char* format, ...) {
  if (!log_enabled(level)) return;
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);

  const char* suffix = "";
  if (level == LogLevel::warn) {
    int count = occurrences(message);
    if (count > repeats_shown) return;
    if (count == repeats_shown) suffix = " (said before; further repeats are not shown)";
  }

  char host[64] = "";
  gethostname(host, sizeof host - 1);
  char who[32] = "";
  if (rank >= 0) std::snprintf(who, sizeof who, " %d/%d", rank.load(), size.load());
  char line[1280];
  int length = std::snprintf(line, sizeof line, "fairlead%s %s:%d %s %s%s\n", who, host, getpid(),
                             level_names[static_cast<int>(level)], message, suffix);
  if (length >= static_cast<int>(sizeof line)) {
    length = sizeof line - 1;
    line[length - 1] = '\n';
  }
  // A single write, so that lines of different ranks do not interleave.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(length));
}

}  // namespace fairlead
