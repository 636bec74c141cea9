// SPDX-License-Identifier: Apache-2.0
//
// `fairlead run` and `fairlead exec`: start the ranks of a program with Fairlead loaded, and become one rank.

#pragma once

#include <string>
#include <vector>

#include "common/words.h"
#include "run/binding.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct RunArguments {
  int ranks = 0;
  std::string mpi;     // an ABI, or the launcher to use; "" to find out
  int sim = 0;         // simulated GPUs; 0: not asked for
  std::string device;  // provider to force, from `bench -d`; "" for none
  bool preload = true;
  bool stats = false;
  std::string stats_file, trace;
  BindingArguments binding;
  bool dry_run = false;
  std::vector<std::string> launcher_args;
};

void define_run(CLI::App& app, RunArguments& arguments);
int run_command(const Words& words);

// The launcher's command line that starts `program` in ranks. The launcher itself must run without Fairlead:
// preload_with("") is what LD_PRELOAD must be for it.
Words launcher_line(const RunArguments& arguments, const Words& program);

// Runs the launcher that starts `program`, and returns its exit code; after --dry-run, which only prints, 0.
int launch(const RunArguments& arguments, const Words& program);

struct ExecArguments {
  std::string mpi;
  bool preload = true;
  BindingArguments binding;
};

void define_exec(CLI::App& app, ExecArguments& arguments);
int exec_command(const Words& words);

}  // namespace fairlead::tools
