// SPDX-License-Identifier: Apache-2.0
//
// The options that `fairlead run` and `fairlead exec` pass to the library in the ranks: simulated GPUs, and
// what it records. Each becomes an environment variable of the ranks.

#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace fairlead::tools {

struct Settings {
  bool preload = true;
  bool variables = true;           // those of gpu_aware.h
  std::vector<std::string> tools;  // libraries to preload before Fairlead
  int sim = 0;                     // simulated GPUs; 0: not asked for
  std::string device;              // provider to force, from `bench -d`; "" for none
  bool stats = false;
  std::string stats_file, trace;
  std::string memory_alloc_kinds;
  std::string check, log;  // as the options of the library; "" for none
  bool mps = false;        // mps/mps.h
  int progress_s = 0;      // seconds from one line to the next; 0: none
};

void define_settings(CLI::App& app, Settings& settings);

// Throws a usage Failure where they contradict each other.
void check_settings(const Settings& settings);

std::map<std::string, std::string> to_variables(const Settings& settings);

}  // namespace fairlead::tools
