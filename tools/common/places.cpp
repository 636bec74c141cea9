// SPDX-License-Identifier: Apache-2.0

#include "common/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "common/failure.h"
#include "common/process.h"
#include "common/words.h"
#include "observe/json/provenance.h"

namespace fairlead::tools {
namespace {

namespace fs = std::filesystem;

fs::path home() {
  if (const char* given = std::getenv("FAIRLEAD_HOME"); given && *given) return fs::path(given);
  return fs::path(own_path()).parent_path().parent_path();
}

// Programs and libraries of a tree work with the command of the same release only. Throws a usage Failure.
void require_own_release() {
  const char* given = std::getenv("FAIRLEAD_HOME");
  if (!given || !*given) return;
  const std::string release = release_of_library(library_folder(device_soname) + "/" + device_soname);
  if (!release.empty() && release != FAIRLEAD_VERSION)
    throw usage(
        fmt::format("FAIRLEAD_HOME is {0}, which holds Fairlead {1}, and this command is of {2}; use "
                    "{0}/bin/fairlead, or unset FAIRLEAD_HOME",
                    given, release, FAIRLEAD_VERSION));
}

std::string rank_program(const std::string& name) {
  require_own_release();
  fs::path candidate = home() / "libexec" / "fairlead" / name;
  return is_executable(candidate.string()) ? candidate.string() : std::string();
}

// A build tree may know an MPI of which not everything is built yet: `./demo` builds for one alone.
bool is_configured_for(const std::string& abi) {
  std::ifstream cache(home() / "CMakeCache.txt");
  const std::string found = "FAIRLEAD_MPICC_" + abi + ":";
  for (std::string line; std::getline(cache, line);)
    if (line.rfind(found, 0) == 0) return true;
  return false;
}

}  // namespace

std::string home_folder() {
  return home().string();
}

bool is_mpi_abi(const std::string& text) {
  return std::find(mpi_abis.begin(), mpi_abis.end(), text) != mpi_abis.end();
}

std::string own_path() {
  return observe::Provenance::own_program();
}

std::string library_folder(const std::string& file) {
  // FAIRLEAD_LIBDIR is where `make install` puts libraries; a build tree always says lib.
  for (const char* folder : {"lib", FAIRLEAD_LIBDIR, "lib64"})
    if (std::error_code error; fs::exists(home() / folder / file, error)) return (home() / folder).string();
  return {};
}

std::string home_remedy(const std::string& what) {
  const char* given = std::getenv("FAIRLEAD_HOME");
  if (!given || !*given) return {};
  return fmt::format("FAIRLEAD_HOME is {}, which holds no {}; unset it, or set it to an installed Fairlead",
                     given, what);
}

std::string what_adds(const std::string& abi) {
  if (is_configured_for(abi))
    return fmt::format("`cmake --build {}` adds it", shell_quote(fs::proximate(home()).string()));
  // Debian has a package for each of its MPIs.
  const std::string package =
      home() == "/usr" && abi != "abi" ? fmt::format("install fairlead-bench-{}, or ", abi) : "";
  return package + "build it with that MPI's mpicc, which was not found, in FAIRLEAD_MPICC";
}

std::string release_of_library(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  // The version of its private symbols (src/device/exports.map.in), which ends with a zero.
  constexpr std::string_view mark = "FAIRLEAD_PRIVATE_";
  const size_t at = content.find(mark);
  return at == std::string::npos ? "" : content.c_str() + at + mark.size();
}

std::string preload_library(const std::string& abi) {
  require_own_release();
  std::string file = "libfairlead-" + abi + ".so", folder = library_folder(file);
  if (!folder.empty()) return (fs::path(folder) / file).string();
  std::string wrong = home_remedy("lib/" + file);
  if (wrong.empty())
    wrong = fmt::format("this Fairlead was built without a library for MPI {} ({}); {}", abi, file,
                        what_adds(abi));
  throw usage(wrong + ", or give --no-preload");
}

std::string bench_program(const std::string& abi) {
  return rank_program("bench-" + abi);
}
std::string probe_program(const std::string& abi) {
  return rank_program("probe-" + abi);
}

std::string drawing_program() {
  fs::path folder = home() / "libexec" / "fairlead" / "plot";
  if (std::error_code error; fs::exists(folder / "__main__.py", error)) return folder.string();
  std::string wrong = home_remedy("libexec/fairlead/plot");
  if (wrong.empty()) wrong = fmt::format("{} is missing; `cmake --install` puts it there", folder.string());
  throw usage(wrong);
}

std::string told_folder(const std::string& abi, const std::string& provider, const std::string& kind) {
  fs::path folder = home() / "share" / "fairlead" / abi / provider / kind;
  std::error_code error;
  return fs::is_directory(folder, error) ? folder.string() : std::string();
}

std::string alias_folder(const std::string& name, const std::string& other) {
  fs::path folder = home() / "libexec" / "fairlead" / "alias" / other;
  std::error_code error;
  return fs::exists(folder / name, error) ? folder.string() : std::string();
}

std::vector<std::string> bench_abis() {
  std::vector<std::string> found;
  for (const std::string& abi : mpi_abis)
    if (!bench_program(abi).empty()) found.push_back(abi);
  return found;
}

std::string preload_with(const std::string& library) {
  std::string preload = library;
  const char* given = std::getenv("LD_PRELOAD");
  // As the loader separates entries.
  for (const std::string& entry : split(given ? given : "", ": ")) {
    bool ours = fs::path(entry).filename().string().rfind("libfairlead-", 0) == 0;
    if (!ours) preload += (preload.empty() ? "" : ":") + entry;
  }
  return preload;
}

}  // namespace fairlead::tools
