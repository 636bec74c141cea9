// SPDX-License-Identifier: Apache-2.0
//
// `fairlead compare`: what differs between two runs, and which of their figures.

#pragma once

#include <string>

#include "common/words.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct CompareArguments {
  std::string before, after;
  std::string fail_above;
};

void define_compare(CLI::App& app, CompareArguments& arguments);
int compare_command(const Words& words);

}  // namespace fairlead::tools
