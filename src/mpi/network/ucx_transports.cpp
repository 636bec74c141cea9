// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/ucx_transports.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace fairlead::mpi::network {
namespace {

// As in ucp.h and ucs/config/types.h.
using ReadConfiguration = int (*)(const char* prefix, const char* file, void** configuration);
using PrintConfiguration = void (*)(const void* configuration, FILE* to, const char* title, int what);
using ReleaseConfiguration = void (*)(void* configuration);
constexpr int print_values = 1;

std::string printed(void* configuration, PrintConfiguration print) {
  char* text = nullptr;
  size_t length = 0;
  FILE* to = open_memstream(&text, &length);
  if (!to) return {};
  print(configuration, to, nullptr, print_values);
  std::fclose(to);
  std::string all(text, length);
  std::free(text);
  return all;
}

}  // namespace

std::string ucx_transports(const char* library, const char* prefix) {
  void* ucx = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (!ucx) return {};
  auto read = reinterpret_cast<ReadConfiguration>(dlsym(ucx, "ucp_config_read"));
  auto print = reinterpret_cast<PrintConfiguration>(dlsym(ucx, "ucp_config_print"));
  auto release = reinterpret_cast<ReleaseConfiguration>(dlsym(ucx, "ucp_config_release"));
  void* configuration = nullptr;
  std::string transports;
  if (read && print && release && read(prefix, nullptr, &configuration) == 0) {
    std::istringstream lines(printed(configuration, print));
    const std::string name = "UCX_TLS=";
    for (std::string line; std::getline(lines, line);)
      if (const size_t at = line.find(name); at != std::string::npos)
        transports = line.substr(at + name.size());
    release(configuration);
  }
  dlclose(ucx);
  return transports;
}

bool copies_device_memory(const std::string& transports, const std::string& provider) {
  if (transports.empty()) return false;
  const bool excludes = transports[0] == '^';
  bool named = false;
  std::istringstream names(transports.substr(excludes));
  for (std::string name; std::getline(names, name, ',');) {
    if (name[0] == '\\') name.erase(0, 1);  // no alias
    named |= name == "all" || name == provider || name == provider + "_copy";
  }
  return named != excludes;
}

}  // namespace fairlead::mpi::network
