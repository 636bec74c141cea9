// SPDX-License-Identifier: Apache-2.0

#include "run/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/launched_job.h"
#include "base/system/processor.h"
#include "common/failure.h"
#include "common/places.h"
#include "common/process.h"

namespace fairlead::tools {
namespace {

namespace fs = std::filesystem;

// "a=b;c=d"
std::map<std::string, std::string> pairs_in(const std::string& text) {
  std::map<std::string, std::string> pairs;
  for (const std::string& pair : split(text, ";"))
    pairs.emplace(pair.substr(0, pair.find('=')), pair.substr(pair.find('=') + 1));
  return pairs;
}

const std::vector<LauncherKind>& kinds() {
  using enum VariableStyle;
  static const std::vector<LauncherKind> all = {
#define FAIRLEAD_LAUNCH_COMMAND(name, version_mark, abis, own_abis, variables, subcommand, arguments, \
                                as_root, signals, words)                                              \
  {name,      version_mark,      split(abis),           split(own_abis),                              \
   variables, split(subcommand), split(arguments, ";"), split(as_root, ";"),                          \
   signals,   pairs_in(words)},
#include "base/launchers.def"
  };
  return all;
}

const LauncherKind& kind_named(const std::string& name) {
  return *std::find_if(kinds().begin(), kinds().end(),
                       [&](const LauncherKind& each) { return name == each.name; });
}

bool is_set(const char* variable) {
  return *variable && std::getenv(variable);
}

constexpr const char* launcher_names[] = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"};

// Debian installs several MPIs side by side, told apart by a suffix.
Words names_for(const std::string& abi) {
  Words names;
  for (const char* name : {"mpirun", "mpiexec"}) names.push_back(fmt::format("{}.{}", name, abi));
  names.insert(names.end(), std::begin(launcher_names), std::end(launcher_names));
  return names;
}

std::optional<Launcher> launcher_for(const std::string& path, const std::string& abi) {
  if (path.empty() || !is_executable(path)) return std::nullopt;
  auto launcher = recognise_launcher(path);
  return launcher && starts(*launcher, abi) ? launcher : std::nullopt;
}

// mpirun of Intel MPI is a script that calls mpiexec.hydra of PATH, which may be another MPI's.
Words prefix_of(const fs::path& launcher) {
  std::ifstream file(launcher, std::ios::binary);
  char start[2] = {};
  file.read(start, 2);
  if (start[0] != '#' || start[1] != '!' || !is_executable(launcher.parent_path() / "mpiexec.hydra"))
    return {};
  const char* path = std::getenv("PATH");
  return {"env", fmt::format("PATH={}:{}", launcher.parent_path().string(), path ? path : "/usr/bin:/bin")};
}

Words library_folders_beside(const Launcher& launcher) {
  Words folders;
  const fs::path prefix = fs::path(launcher.path).parent_path().parent_path();
  for (const char* name : {"lib", "lib64", multiarch_folder, "lib/release"})
    if (std::error_code error; fs::is_directory(prefix / name, error))
      folders.push_back((prefix / name).string());
  return folders;
}

Words libraries_beside(const Launcher& launcher, const std::string& abi) {
  Words libraries;
  for (const std::string& folder : library_folders_beside(launcher))
    for (const std::string& library : mpi_libraries_in(folder, abi)) libraries.push_back(library);
  return libraries;
}

// More ranks from within a step, which holds the cores that they need.
Words arguments_in_a_step(const LauncherKind& kind) {
  for (const Allocation& each : allocations())
    if (kind.name == std::string(each.launcher) && is_set(each.step)) return each.arguments;
  return {};
}

bool given_by_user(const Words& extra, const std::string& argument) {
  return std::find(extra.begin(), extra.end(), argument.substr(0, argument.find(' '))) != extra.end();
}

}  // namespace

bool starts(const Launcher& launcher, const std::string& abi) {
  const LauncherKind& kind = *launcher.kind;
  auto has = [&abi](const Words& abis) { return std::find(abis.begin(), abis.end(), abi) != abis.end(); };
  if (!has(kind.own_abis)) return kind.abis.empty() || has(kind.abis);
  return !libraries_beside(launcher, abi).empty();
}

const LauncherKind* kind_of_launcher(const std::string& version_text) {
  for (const LauncherKind& kind : kinds())
    if (version_text.find(kind.version_mark) != std::string::npos) return &kind;
  return nullptr;
}

std::optional<Launcher> recognise_launcher(const std::string& path) {
  // Open MPI takes what precedes bin/ in its own path for its prefix, so /bin must be the /usr/bin it leads
  // to.
  fs::path place(path);
  std::error_code error;
  if (fs::path folder = fs::canonical(place.parent_path(), error); !error) place = folder / place.filename();
  Words prefix = prefix_of(place), line = prefix;
  line.insert(line.end(), {place.string(), "--version"});
  const LauncherKind* kind = kind_of_launcher(capture(line, Stderr::merge).output);
  return kind ? std::optional(Launcher{place.string(), kind, prefix}) : std::nullopt;
}

Launcher launcher_named(const std::string& name) {
  std::string path = find_on_path(name);
  if (path.empty())
    throw usage(name.find('/') == std::string::npos
                    ? fmt::format("--mpi: '{}' is not accepted; accepted: {}, or the path of a launcher",
                                  name, fmt::join(mpi_abis, ", "))
                    : "--mpi: " + why_no_program(name));
  auto launcher = recognise_launcher(path);
  if (!launcher)
    throw usage(
        fmt::format("--mpi: {} is not a known launcher: its --version is not that of Open MPI, MPICH, Intel "
                    "MPI, PALS, Slurm or Flux",
                    path));
  return *launcher;
}

MpiBeside mpi_beside(const Launcher& launcher, const Program& program) {
  if (program.abi.empty() || launcher.kind->abis.empty()) return {};
  for (const std::string& folder : library_folders_beside(launcher))
    if (std::string folders = path_to_mpi_in(folder, program); !folders.empty()) return {folders, ""};
  Words libraries = libraries_beside(launcher, program.abi);
  if (libraries.empty()) libraries = libraries_beside(launcher, launcher.kind->abis.front());
  auto same = [&](const std::string& library) { return !other_mpi(program.mpi_library, library); };
  if (libraries.empty() || std::any_of(libraries.begin(), libraries.end(), same)) return {};
  return {"", libraries.front()};
}

bool Allocation::here() const {
  return is_set(variable);
}

const std::vector<Allocation>& allocations() {
  static const std::vector<Allocation> all = {
#define FAIRLEAD_ALLOCATION(variable, launcher, program, step, arguments) \
  {variable, launcher, program, step, split(arguments, ";")},
#include "base/launchers.def"
  };
  return all;
}

std::string line_for_scheduler(const std::string& abi, int ranks, const Words& program) {
  for (const Allocation& each : allocations()) {
    if (!*each.program || find_on_path(each.program).empty()) continue;
    const Words& subcommand = kind_named(each.launcher).subcommand;
    return fmt::format(
        "in an allocation, where {} is set, {} starts the ranks; type: {}{} -n {} fairlead exec --mpi {} {}",
        each.variable, each.program, each.program, subcommand.empty() ? "" : " " + subcommand.front(), ranks,
        abi, shell_line(program));
  }
  return {};
}

Launcher find_launcher(const std::string& abi, const std::string& library, const std::string& otherwise) {
  // Both as the loader found it and where its links lead: a prefix may be assembled from links.
  std::vector<fs::path> places;
  std::error_code error;
  if (!library.empty()) places = {fs::path(library), fs::canonical(library, error)};
  for (const fs::path& place : places) {
    if (place.empty()) continue;
    // lib/, lib/x86_64-linux-gnu/, lib/x86_64-linux-gnu/openmpi/lib/
    fs::path folder = place.parent_path();
    for (int up = 0; up < 4 && folder.has_relative_path(); ++up, folder = folder.parent_path())
      for (const std::string& name : names_for(abi))
        if (auto launcher = launcher_for((folder.parent_path() / "bin" / name).string(), abi))
          return *launcher;
  }
  for (const std::string& name : names_for(abi))
    if (auto launcher = launcher_for(find_on_path(name), abi)) return *launcher;
  for (const Allocation& each : allocations())
    if (each.here() && *each.program)
      if (auto launcher = launcher_for(find_on_path(each.program), abi)) return *launcher;
  throw usage(fmt::format(
      "no launcher of MPI {} found{}{}; {}", abi, library.empty() ? "" : " near ", library,
      !otherwise.empty()
          ? otherwise
          : fmt::format("install one ({}), put it on PATH, or give --mpi PATH", what_brings_mpi(abi))));
}

std::string arguments_added() {
  std::vector<std::pair<std::string, Words>> given;  // the arguments, and which launchers get them
  for (const LauncherKind& kind : kinds()) {
    if (kind.arguments.empty()) continue;
    std::string text = fmt::format("{}", fmt::join(kind.arguments, " "));
    if (!kind.arguments_as_root.empty())
      text += fmt::format(" (as root also {})", fmt::join(kind.arguments_as_root, " "));
    auto same = std::find_if(given.begin(), given.end(), [&](const auto& row) { return row.first == text; });
    if (same == given.end()) same = given.insert(given.end(), {text, {}});
    same->second.push_back(kind.name);
  }
  std::string all;
  for (const auto& [text, names] : given)
    all += fmt::format("{}{} get{} {}", all.empty() ? "" : ", ", fmt::join(names, " and "),
                       names.size() == 1 ? "s" : "", text);
  return all;
}

std::optional<Launcher> first_launcher_on_path() {
  for (const char* name : launcher_names)
    if (std::string path = find_on_path(name); !path.empty())
      if (auto launcher = recognise_launcher(path)) return launcher;
  return std::nullopt;
}

Words pmi_words(const Launcher& launcher, const std::string& abi, const Program& program,
                const Words& extra) {
  const Pmi* pmi = find_pmi(launcher.kind->name, abi);
  if (!pmi || !*pmi->list) return {};
  const std::string usual = pmi->word, option = usual.substr(0, usual.find('='));
  const bool by_pmix = library_listing(program.path).find("libpmix.so") != std::string::npos;
  auto given = [&](const std::string& each) { return each.rfind(option, 0) == 0; };
  if (std::getenv("SLURM_MPI_TYPE") || std::any_of(extra.begin(), extra.end(), given)) return {};
  // A site's own choice may be one that only its MPI knows, as on Cray's machines.
  const std::string configured = capture({"scontrol", "show", "config"}, Stderr::drop).output;
  if (size_t at = configured.find("MpiDefault"); at != std::string::npos)
    if (Words words = split(configured.substr(at, configured.find('\n', at) - at)); words.back() != "none")
      return {};
  const Words offered = split(capture({launcher.path, pmi->list}, Stderr::merge).output, " \t\n:,");
  constexpr const char* pmi_of_cray = "cray_shasta";
  auto has = [&](const char* name) {
    return std::find(offered.begin(), offered.end(), name) != offered.end();
  };
  const bool by_cray = has(pmi_of_cray) && is_cray_library(program.mpi_library);
  const std::string kind = by_cray ? pmi_of_cray : by_pmix ? "pmix" : usual.substr(option.size() + 1);
  if (has("none") && !has(kind.c_str()))
    throw usage(
        fmt::format("{} has no {} ({} {}), which ranks of {} usually need to find each other; omit --mpi to "
                    "use the launcher of that MPI, or name another one:  --launcher-args '{}=...'",
                    launcher.path, kind, launcher.path, pmi->list, abi, option));
  return {option + "=" + kind};
}

Words launch_line(const Launcher& launcher, const Launch& launch) {
  const LauncherKind& kind = *launcher.kind;
  Words line;
  auto append = [&line](const Words& words) { line.insert(line.end(), words.begin(), words.end()); };
  if (kind.variables == VariableStyle::environment_prefix && !launch.variables.empty()) {
    line.push_back("env");
    for (const auto& [name, value] : launch.variables) line.push_back(name + "=" + value);
  }
  append(launcher.prefix);
  line.push_back(launcher.path);
  append(kind.subcommand);
  Words arguments = kind.arguments;
  if (geteuid() == 0)
    arguments.insert(arguments.end(), kind.arguments_as_root.begin(), kind.arguments_as_root.end());
  for (const std::string& argument : arguments_in_a_step(kind)) arguments.push_back(argument);
  for (const std::string& argument : arguments)
    if (!given_by_user(launch.extra, argument)) append(shell_split(argument));
  for (const auto& [name, value] : launch.variables) {
    if (kind.variables == VariableStyle::export_name_value) append({"-x", name + "=" + value});
    if (kind.variables == VariableStyle::global_two_words) append({"-genv", name, value});
  }
  append(launch.extra);
  // Last, because Hydra takes what follows -n as local to this one program.
  append({"-n", std::to_string(launch.ranks)});
  append(launch.command);
  return line;
}

}  // namespace fairlead::tools
