// SPDX-License-Identifier: Apache-2.0
//
// MPI launchers: finds and recognises them, and writes their command lines. The table src/base/launchers.def
// holds what differs between launchers.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/words.h"
#include "run/program.h"

namespace fairlead::tools {

// How a variable is given to the ranks.
enum class VariableStyle {
  export_name_value,   // -x NAME=VALUE
  global_two_words,    // -genv NAME VALUE
  environment_prefix,  // env NAME=VALUE launcher ...: the launcher hands its own environment on
};

// A row of FAIRLEAD_LAUNCH_COMMAND, which tells the fields.
struct LauncherKind {
  const char* name;
  const char* version_mark;
  Words abis, own_abis;
  VariableStyle variables;
  Words subcommand, arguments, arguments_as_root;
  int signals;
  std::map<std::string, std::string> words;
};

struct Launcher {
  std::string path;
  const LauncherKind* kind = nullptr;
  Words prefix = {};  // precedes `path` on every command line
};

bool starts(const Launcher& launcher, const std::string& abi);

// What prints this text when it is asked for its --version; null where it is no launcher we know.
const LauncherKind* kind_of_launcher(const std::string& version_text);

// What `path` is, from its --version; empty where it is no launcher we know.
std::optional<Launcher> recognise_launcher(const std::string& path);

// The one of this path, or name on PATH. Throws a usage Failure where that is none.
Launcher launcher_named(const std::string& name);

// The library of the launcher's MPI, in lib/ beside its bin/, and a program.
struct MpiBeside {
  std::string folders;  // what LD_LIBRARY_PATH must be for the program to use that library; "" where it does,
                        // or cannot
  std::string other;    // that library, where it cannot take the place of the program's by its name or its
                        // ABI; else ""
};
MpiBeside mpi_beside(const Launcher& launcher, const Program& program);

// The launcher that belongs to this MPI library: near it (bin/ of its prefix), else on PATH, else that of the
// allocation. `library` may be empty. Throws a usage Failure where there is none, with what to do otherwise
// ("": install one).
Launcher find_launcher(const std::string& abi, const std::string& library, const std::string& otherwise = {});

// A row of FAIRLEAD_ALLOCATION, which tells the fields.
struct Allocation {
  const char *variable, *launcher, *program, *step;
  Words arguments;

  bool here() const;  // is this process in one?
};
const std::vector<Allocation>& allocations();

// What to do without a launcher of the MPI where PATH has a scheduler's, which starts ranks of any; "" where
// it has none.
std::string line_for_scheduler(const std::string& abi, int ranks, const Words& program);

// What launch_line() adds of its own accord, in words for --help.
std::string arguments_added();

// The first launcher on PATH.
std::optional<Launcher> first_launcher_on_path();

// What this launcher has to be given, besides the user's own words for it, so that ranks of this ABI find
// each other. `program` may be linked with PMIx. Throws a usage Failure where it has no such thing.
Words pmi_words(const Launcher& launcher, const std::string& abi, const Program& program, const Words& extra);

struct Launch {
  int ranks = 0;
  std::vector<std::pair<std::string, std::string>> variables;
  Words extra;  // the user's own words for the launcher
  Words command;
};
Words launch_line(const Launcher& launcher, const Launch& launch);

}  // namespace fairlead::tools
