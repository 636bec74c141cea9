// SPDX-License-Identifier: Apache-2.0
//
// Words of mpirun that users type at `fairlead run`: each launcher is given its own spelling of them
// (src/base/launchers.def). Variables for the ranks go the way that all of them go.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run/launcher.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct LauncherWords {
  std::map<std::string, std::string> values;  // "hostfile" -> "hosts.txt", by the words of launchers.def
  std::vector<std::pair<std::string, std::string>> mca;
  std::vector<std::string> exported;                     // -x NAME[=VALUE]
  std::vector<std::pair<std::string, std::string>> set;  // -genv NAME VALUE

  bool has(const std::string& key) const { return values.count(key) > 0; }
};

void define_launcher_words(CLI::App& app, LauncherWords& words);

// As this launcher takes them. Throws a usage Failure where it has no such word.
Words spelled_for(const LauncherKind& launcher, const LauncherWords& words);

// What a word of some launcher is called here; "" for other words.
std::string answer_to_launcher_word(const std::string& word);

// Throws a usage Failure where a variable to pass on is not set.
void add_variables(const LauncherWords& words, std::map<std::string, std::string>* variables);

}  // namespace fairlead::tools
