// SPDX-License-Identifier: Apache-2.0
//
// Gives Fairlead and the options of this process to the processes that the program spawns. Launchers pass on
// their own environment, not that of the process that spawns. So the host MPI starts `env LD_PRELOAD=...
// FAIRLEAD_...=... command`, with the command named so that env starts the file that the host MPI would
// start. A command that is not found here is passed to the host MPI unchanged. (Not by an info key: quirk
// variables_of_spawned.)

#pragma once

#include <list>
#include <string>
#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

class SpawnedEnvironment {
 public:
  // Takes the program's arguments, which are significant at `root` only. `argvs` may be MPI_ARGVS_NULL.
  SpawnedEnvironment(int count, char* const commands[], char** const argvs[], const MPI_Info infos[],
                     int root, MPI_Comm comm);
  ~SpawnedEnvironment();
  SpawnedEnvironment(const SpawnedEnvironment&) = delete;
  SpawnedEnvironment& operator=(const SpawnedEnvironment&) = delete;
  char** commands() { return commands_; }
  char*** argvs() { return argvs_; }
  const MPI_Info* infos() { return infos_; }

 private:
  void start_by_env(size_t i, const std::string& name);

  std::list<std::string> settings_, names_;
  std::list<std::vector<char*>> words_;
  std::vector<MPI_Info> made_infos_;
  std::vector<char*> own_commands_;
  std::vector<char**> own_argvs_;
  std::vector<MPI_Info> own_infos_;
  char** commands_;
  char*** argvs_;
  const MPI_Info* infos_;
};

}  // namespace fairlead::mpi
