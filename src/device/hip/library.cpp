// SPDX-License-Identifier: Apache-2.0

#include "device/hip/library.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <iterator>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/rate_limit.h"
#include "device/loaded_library.h"

namespace fairlead::device {
namespace {

// Returns whether the file itself is missing, rather than a library that it depends on.
bool is_missing(const std::string& file, const std::string& error) {
  return error.rfind(file + ": cannot open shared object file: No such file", 0) == 0;
}

// Logs once if there are several.
std::vector<LoadedLibrary> loaded_runtimes() {
  static std::atomic<bool> warned = false;
  std::vector<LoadedLibrary> loaded = loaded_libraries("libamdhip64", "hipInit");
  if (loaded.size() > 1 && !warned.exchange(true)) {
    std::string paths;
    for (const LoadedLibrary& library : loaded) paths += (paths.empty() ? "" : " and ") + library.path;
    log_line(LogLevel::warn,
             "this process has loaded %zu HIP runtimes, %s: device memory of one is host memory to the "
             "others; let LD_LIBRARY_PATH name the folder of one of them first",
             loaded.size(), paths.c_str());
  }
  return loaded;
}

}  // namespace

void* loaded_hip() {
  const std::vector<LoadedLibrary> loaded = loaded_runtimes();
  return loaded.empty() ? nullptr : loaded.front().handle;
}

void* open_hip(std::string* why_not) {
  if (void* library = loaded_hip()) return library;
  why_not->clear();
  for (const char* file : hip_library_names) {
    if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
    const std::string error = dlerror();
    const bool last = file == *std::rbegin(hip_library_names);
    if (why_not->empty() && (last || !is_missing(file, error))) *why_not = error;
  }
  return nullptr;
}

void look_for_another_hip() {
  static RateLimit look_again(std::chrono::milliseconds(100));
  static std::atomic<uint64_t> seen = 0;
  if (!look_again.due()) return;
  const uint64_t loaded = libraries_ever_loaded();
  if (seen.exchange(loaded) != loaded) loaded_runtimes();
}

}  // namespace fairlead::device
