// SPDX-License-Identifier: Apache-2.0

#include "doctor/system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/small_file.h"
#include "common/failure.h"
#include "common/files.h"
#include "common/process.h"
#include "run/program.h"

extern char** environ;

namespace fairlead::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr auto timeout = std::chrono::seconds(20);

std::optional<std::string> file_text(const fs::path& path) {
  std::string text;
  return read_small_file(path, &text).empty() ? std::optional(text) : std::nullopt;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::map<std::string, std::string> variables_in(const std::vector<std::string>& entries) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : entries)
    if (size_t equals = entry.find('='); equals != std::string::npos)
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  return variables;
}

class ThisSystem : public System {
 public:
  std::optional<std::string> read(const std::string& path) const override { return file_text(path); }
  std::vector<std::string> list(const std::string& folder) const override { return names_in(folder); }
  std::string real_path(const std::string& path) const override {
    std::error_code error;
    return fs::canonical(path, error).string();
  }
  std::optional<std::string> run(const Words& command) const override {
    std::string program = find_on_path(command.front());
    if (program.empty() || hanging.count(program)) return std::nullopt;
    Captured captured = capture(command, Stderr::merge, {{"LC_ALL", "C"}}, timeout);
    if (captured.status != timed_out) return captured.output;
    hanging.insert(program);
    return std::nullopt;
  }
  std::map<std::string, std::string> environment() const override {
    std::vector<std::string> entries;
    for (char** entry = environ; *entry; ++entry) entries.push_back(*entry);
    return variables_in(entries);
  }
  std::string program(const std::string& name) const override { return find_on_path(name); }
  std::string library(const std::string& soname) const override {
    // Lazily bound and local: loading a driver's library starts nothing before its first call. It stays,
    // since the LLVM of Debian 13's ROCm ends a process that loads it twice.
    void* handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) return {};
    link_map* map = nullptr;
    std::string path = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : soname;
    dlclose(handle);
    return path;
  }
  std::string libraries_of(const std::string& program) const override { return library_listing(program); }
  std::optional<std::string> refused(const std::string& path) const override {
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return std::strerror(errno);
    close(file);
    return "";
  }
  bool live() const override { return true; }

 private:
  mutable std::set<std::string> hanging;  // programs that are not asked again
};

std::string name_of_command(const Words& command) {
  std::string name = fs::path(command.front()).filename().string();
  for (auto word = command.begin() + 1; word != command.end(); ++word) name += " " + *word;
  std::replace(name.begin(), name.end(), '/', '%');
  return name;
}

class RecordedSystem : public System {
 public:
  explicit RecordedSystem(const std::string& folder) : root(folder) {}

  std::optional<std::string> read(const std::string& path) const override {
    return file_text(root / fs::path(path).relative_path());
  }
  std::vector<std::string> list(const std::string& folder) const override {
    return names_in(root / fs::path(folder).relative_path());
  }
  std::string real_path(const std::string& path) const override {
    return value_of(file_text(root / "links").value_or(""), path + " =>");
  }
  std::optional<std::string> run(const Words& command) const override {
    return file_text(root / "commands" / name_of_command(command));
  }
  std::map<std::string, std::string> environment() const override {
    return variables_in(lines_of(file_text(root / "environment").value_or("")));
  }
  std::string program(const std::string& name) const override {
    for (const std::string& path : lines_of(file_text(root / "programs").value_or("")))
      if (path == name || (name.find('/') == std::string::npos && fs::path(path).filename() == name))
        return path;
    return {};
  }
  std::string library(const std::string& soname) const override {
    return value_of(file_text(root / "libraries").value_or(""), soname + " =>");
  }
  std::string libraries_of(const std::string& program) const override {
    return run({"ldd", program}).value_or("");
  }
  std::optional<std::string> refused(const std::string& path) const override {
    const auto all = file_text(root / "refused");
    return all ? std::optional(value_of(*all, path + " =>")) : std::nullopt;
  }
  bool live() const override { return false; }

 private:
  fs::path root;
};

class RecordingSystem : public System {
 public:
  RecordingSystem(std::unique_ptr<System> asked, const std::string& folder)
      : asked(std::move(asked)), root(folder) {
    std::string text;
    for (const auto& [name, value] : this->asked->environment())
      if (tells_of_mpi(name) && !holds(value, "\n")) text += name + "=" + value + "\n";
    write("environment", text);
  }

  std::optional<std::string> read(const std::string& path) const override {
    return kept(fs::path(path).relative_path(), asked->read(path));
  }
  std::vector<std::string> list(const std::string& folder) const override {
    std::vector<std::string> names = asked->list(folder);
    std::error_code error;
    if (!names.empty()) fs::create_directories(root / fs::path(folder).relative_path(), error);
    // A name is an answer too: an empty file stands for it until it is read, a folder for one.
    for (const std::string& name : names) {
      fs::path place = fs::path(folder).relative_path() / name;
      if (fs::exists(root / place, error)) continue;
      if (fs::is_directory(fs::path(folder) / name, error))
        fs::create_directories(root / place, error);
      else
        write(place, "");
    }
    return names;
  }
  std::string real_path(const std::string& path) const override {
    std::string real = asked->real_path(path);
    if (!real.empty()) add("links", path + " => " + real);
    return real;
  }
  std::optional<std::string> run(const Words& command) const override {
    return kept(fs::path("commands") / name_of_command(command), asked->run(command));
  }
  std::map<std::string, std::string> environment() const override { return asked->environment(); }
  std::string program(const std::string& name) const override {
    std::string path = asked->program(name);
    if (!path.empty()) add("programs", path);
    return path;
  }
  std::string library(const std::string& soname) const override {
    std::string path = asked->library(soname);
    if (!path.empty()) add("libraries", soname + " => " + path);
    return path;
  }
  std::string libraries_of(const std::string& program) const override {
    return *kept(fs::path("commands") / name_of_command({"ldd", program}), asked->libraries_of(program));
  }
  std::optional<std::string> refused(const std::string& path) const override {
    const auto why = asked->refused(path);
    if (why) add("refused", path + " => " + *why);
    return why;
  }
  bool live() const override { return asked->live(); }

 private:
  // A recording is sent to others: the rest of an environment is nobody's business.
  static bool tells_of_mpi(const std::string& name) {
    for (const char* prefix :
         {"FAIRLEAD_", "OMPI_", "PMIX_", "PRTE_", "MPICH_", "MPIR_", "I_MPI_", "MV2_", "UCX_", "FI_", "CUDA_",
          "HIP_", "HSA_", "ROCR_", "GPU_", "NVIDIA_", "CRAY_", "PE_MPICH_", "GTL_"})
      if (name.rfind(prefix, 0) == 0) return true;
    return name == "PATH" || name == "LD_LIBRARY_PATH" || name == "LD_PRELOAD" || name == "container" ||
           name == "SLURM_JOB_ID" || name == "SLURM_JOB_GPUS";
  }
  void write(const fs::path& place, const std::string& text) const {
    std::error_code error;
    fs::create_directories((root / place).parent_path(), error);
    write_to_file("--record", root / place, text);
  }
  void add(const char* list, const std::string& line) const {
    std::string text = file_text(root / list).value_or("");
    if (!holds("\n" + text, "\n" + line + "\n")) write(list, text + line + "\n");
  }
  std::optional<std::string> kept(const fs::path& place, std::optional<std::string> text) const {
    if (text) write(place, *text);
    return text;
  }

  std::unique_ptr<System> asked;
  fs::path root;
};

}  // namespace

std::string System::variable(const std::string& name) const {
  auto variables = environment();
  auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

std::string System::first_line(const std::string& path) const {
  std::string text = read(path).value_or("");
  return trimmed(text.substr(0, text.find('\n')));
}

std::unique_ptr<System> this_system() {
  return std::make_unique<ThisSystem>();
}

std::unique_ptr<System> recorded_system(const std::string& folder) {
  if (std::error_code error; !fs::is_directory(folder, error))
    throw usage(fmt::format("--from: no folder {}; accepted: what --record wrote", folder));
  std::string text;
  if (const std::string why = read_small_file(fs::path(folder) / "environment", &text); !why.empty())
    throw usage(
        fmt::format("--from: {} is no recorded machine, which has a file 'environment': {}; accepted: "
                    "what --record wrote",
                    folder, why));
  return std::make_unique<RecordedSystem>(folder);
}

std::unique_ptr<System> recording_system(std::unique_ptr<System> asked, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder) || !fs::is_empty(folder, error) || error)
    throw usage(fmt::format("--record: {} is not a new or empty folder that can be written", folder));
  return std::make_unique<RecordingSystem>(std::move(asked), folder);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string trimmed(const std::string& text) {
  size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) return {};
  return text.substr(start, text.find_last_not_of(" \t\r\n") - start + 1);
}

std::string value_of(const std::string& text, const std::string& key) {
  for (const std::string& line : lines_of(text))
    if (std::string start = trimmed(line); start.rfind(key, 0) == 0) return trimmed(start.substr(key.size()));
  return {};
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool lists(const std::string& list, const std::string& word) {
  return holds("," + list + ",", "," + word + ",");
}

bool is_off(const std::string& value) {
  const std::string word = lower(value), all[] = {"0", "n", "no", "off", "false"};
  return std::find(std::begin(all), std::end(all), word) != std::end(all);
}

}  // namespace fairlead::tools::doctor
