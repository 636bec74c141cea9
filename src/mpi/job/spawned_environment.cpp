// SPDX-License-Identifier: Apache-2.0

#include "mpi/job/spawned_environment.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/environment.h"
#include "mpi/info/memory_kinds.h"

namespace fairlead::mpi {
namespace {

namespace fs = std::filesystem;

char starter[] = "/usr/bin/env";

// The variables to pass on. None if the environment of this process does not preload Fairlead: the program is
// then linked with it, and what it spawns may be linked with it too.
std::list<std::string> own_settings() {
  const char* preload = environment_variable("LD_PRELOAD");
  if (!preload || !std::strstr(preload, "libfairlead") || access(starter, X_OK) != 0) return {};
  std::list<std::string> settings;
  for (const char* const* setting = environment_variables(); *setting; ++setting)
    if (std::strncmp(*setting, "LD_PRELOAD=", 11) == 0 || std::strncmp(*setting, "FAIRLEAD_", 9) == 0)
      settings.emplace_back(*setting);
  return settings;
}

bool can_run(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
}

// The first of `directories` that contains `command`; empty if none does. Directories may be relative to
// `from`.
std::string directory_with(const char* command, const std::string& directories, const fs::path& from) {
  std::istringstream list(directories);
  for (std::string directory; std::getline(list, directory, ':');)
    if (!directory.empty() && can_run(from / directory / command)) return directory;
  return {};
}

// The name by which env, in the directory of the child, starts the file that the host MPI would start; empty
// if that file is not found here. Open MPI searches PATH, then the directory of the child; MPICH searches the
// info key `path`, or PATH.
std::string name_for_env(const char* command, MPI_Info info) {
  const fs::path from = value_of(info, "wdir");
  if (std::strchr(command, '/')) return can_run(from / command) ? command : "";
  if (std::string given = directory_with(command, value_of(info, "path"), from); !given.empty())
    return given + "/" + command;
  const char* path = environment_variable("PATH");
  if (path && !directory_with(command, path, from).empty()) return command;
  return can_run(from / command) ? std::string("./") + command : "";
}

}  // namespace

SpawnedEnvironment::SpawnedEnvironment(int count, char* const commands[], char** const argvs[],
                                       const MPI_Info infos[], int root, MPI_Comm comm)
    : commands_(const_cast<char**>(commands)), argvs_(const_cast<char***>(argvs)), infos_(infos) {
  int rank = -1;
  if (comm != MPI_COMM_NULL) PMPI_Comm_rank(comm, &rank);
  if (rank != root || !commands || !infos || count <= 0) return;
  settings_ = own_settings();
  if (settings_.empty()) return;
  own_commands_.assign(commands, commands + count);
  own_argvs_.resize(own_commands_.size());
  if (argvs) own_argvs_.assign(argvs, argvs + count);
  own_infos_.assign(infos, infos + count);
  for (size_t i = 0; i < own_commands_.size(); ++i)
    if (std::string name = commands[i] ? name_for_env(commands[i], infos[i]) : ""; !name.empty())
      start_by_env(i, name);
  commands_ = own_commands_.data();
  argvs_ = own_argvs_.data();
  infos_ = own_infos_.data();
}

void SpawnedEnvironment::start_by_env(size_t i, const std::string& name) {
  static char nice[] = "nice", same[] = "-n0";
  std::vector<char*>& words = words_.emplace_back();
  for (std::string& setting : settings_) words.push_back(setting.data());
  // The last setting of a variable counts.
  if (std::string kinds = value_of(own_infos_[i], "mpi_memory_alloc_kinds"); !kinds.empty())
    words.push_back(names_.emplace_back("FAIRLEAD_MEMORY_ALLOC_KINDS=" + kinds).data());
  // env treats a name that contains '=' as another variable. `nice -n0`, which changes nothing, runs it.
  if (name.find('=') != name.npos) words.insert(words.end(), {nice, same});
  words.push_back(names_.emplace_back(name).data());
  for (char** word = own_argvs_[i]; word && *word; ++word) words.push_back(*word);
  words.push_back(nullptr);
  own_commands_[i] = starter;
  own_argvs_[i] = words.data();
  // MPICH would search `path` for env as well.
  if (value_of(own_infos_[i], "path").empty()) return;
  PMPI_Info_dup(own_infos_[i], &own_infos_[i]);
  PMPI_Info_delete(own_infos_[i], "path");
  made_infos_.push_back(own_infos_[i]);
}

SpawnedEnvironment::~SpawnedEnvironment() {
  for (MPI_Info& info : made_infos_) PMPI_Info_free(&info);
}

}  // namespace fairlead::mpi
