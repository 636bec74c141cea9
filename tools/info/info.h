// SPDX-License-Identifier: Apache-2.0
//
// `fairlead info`: what this Fairlead was built from and for, and what of that it finds on this machine.

#pragma once

#include "common/words.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct InfoArguments {
  bool json = false;
};

void define_info(CLI::App& app, InfoArguments& arguments);
int info_command(const Words& words);

}  // namespace fairlead::tools
