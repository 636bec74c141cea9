// SPDX-License-Identifier: Apache-2.0
//
// `fairlead options`: the options of the library, the value in force and where it comes from.

#pragma once

#include "common/words.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct OptionsArguments {
  bool markdown = false;
  bool json = false;
  bool manual = false;                                    // the page in section 7
  bool tuning = false, development = false, all = false;  // classes of options
  std::vector<std::string> variables;                     // these only; all where empty
};

void define_options(CLI::App& app, OptionsArguments& arguments);
int options_command(const Words& words);

}  // namespace fairlead::tools
