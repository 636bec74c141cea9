// SPDX-License-Identifier: Apache-2.0
//
// `fairlead run` and `fairlead exec`: start the ranks of a program with Fairlead, and become one rank.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/words.h"
#include "run/binding.h"
#include "run/launcher_words.h"
#include "run/settings.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct RunArguments : Settings {
  int ranks = 0;
  std::string mpi;  // an ABI, or the launcher to use; "" to find out
  // LD_LIBRARY_PATH of the ranks, "" for what it is, where the caller has chosen the MPI's library.
  std::optional<std::string> library_path;
  BindingArguments binding;
  std::string json;  // file for a report of the job
  bool dry_run = false;
  bool is_benchmark = false;  // one of ours
  std::vector<std::string> launcher_args;
  LauncherWords launcher_words;
};

// In a scheduler's allocation the launcher may start ranks on other machines than this one.
bool ranks_may_be_elsewhere();
// So may words for the launcher, such as a list of nodes.
bool ranks_may_be_elsewhere(const RunArguments& arguments);

void define_run(CLI::App& app, RunArguments& arguments);
int run_command(const Words& words);

// The launcher's command line that starts `program` in ranks. The launcher itself must run without Fairlead:
// preload_with("") is what LD_PRELOAD must be for it.
Words launcher_line(const RunArguments& arguments, const Words& program);

// Runs the launcher that starts `program`, and returns its exit code; after --dry-run, which only prints, 0.
int launch(const RunArguments& arguments, const Words& program);

struct ExecArguments : Settings {
  std::string mpi;
  bool any_launcher = false;  // also of another MPI than the program's
  BindingArguments binding;
};

void define_exec(CLI::App& app, ExecArguments& arguments);
int exec_command(const Words& words);

}  // namespace fairlead::tools
