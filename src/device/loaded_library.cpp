// SPDX-License-Identifier: Apache-2.0

#include "device/loaded_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace fairlead::device {
namespace {

template <class Visit>
void each_library(Visit visit) {
  dl_iterate_phdr([](dl_phdr_info* info, size_t,
                     void* argument) { return (*static_cast<Visit*>(argument))(*info) ? 0 : 1; },
                  &visit);
}

// Returns the path of the file that contains a function.
std::string home_of(void* function) {
  Dl_info found{};
  return function && dladdr(function, &found) && found.dli_fname ? found.dli_fname : "";
}

std::vector<std::string> loaded_paths(const char* file_name) {
  std::vector<std::string> paths;
  each_library([&](const dl_phdr_info& info) {
    const char* slash = std::strrchr(info.dlpi_name, '/');
    const char* file = slash ? slash + 1 : info.dlpi_name;
    if (std::strncmp(file, file_name, std::strlen(file_name)) == 0) paths.emplace_back(info.dlpi_name);
    return true;
  });
  return paths;
}

// Returns null unless this library itself defines the function. Handles are cached, because each dlopen()
// would add a reference.
void* handle_with(const std::string& path, const char* function) {
  static std::mutex mutex;
  static auto& kept = *new std::map<std::pair<std::string, std::string>, void*>;
  std::unique_lock lock(mutex);
  if (auto known = kept.find({path, function}); known != kept.end()) return known->second;
  lock.unlock();  // a library's initialiser may call this function, and dlopen() waits for initialisers
  void* handle = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_NOW);
  if (!handle) return nullptr;
  if (home_of(dlsym(handle, function)) != path) {
    dlclose(handle);
    return nullptr;
  }
  lock.lock();
  return kept[{path, function}] = handle;
}

}  // namespace

std::vector<LoadedLibrary> loaded_libraries(const char* file_name, const char* function) {
  std::vector<LoadedLibrary> found;
  for (const std::string& path : loaded_paths(file_name))
    if (void* handle = handle_with(path, function)) found.push_back({path, handle});
  // A program or a tool may define the function as well, but it is not a library of this name.
  const std::string preferred = home_of(dlsym(RTLD_DEFAULT, function));
  std::stable_partition(found.begin(), found.end(),
                        [&](const LoadedLibrary& library) { return library.path == preferred; });
  return found;
}

uint64_t libraries_ever_loaded() {
  uint64_t loaded = 0;
  each_library([&](const dl_phdr_info& info) {
    loaded = info.dlpi_adds;
    return false;
  });
  return loaded;
}

}  // namespace fairlead::device
