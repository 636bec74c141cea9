// SPDX-License-Identifier: Apache-2.0
//
// `fairlead options`: every option of the library, the value in force and where it comes from.

#pragma once

#include "common/words.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct OptionsArguments {
  bool markdown = false;
  bool json = false;
  std::vector<std::string> variables;  // these only; all where empty
};

void define_options(CLI::App& app, OptionsArguments& arguments);
int options_command(const Words& words);

}  // namespace fairlead::tools
