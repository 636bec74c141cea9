// SPDX-License-Identifier: Apache-2.0
//
// The child of options_test: prints each option as "name=value (origin)", and the provider chosen.

#include <cstdio>

#include "base/options.h"
#include "device/runtime.h"

int main() {
  for (const auto& option : fairlead::describe_options())
    std::printf("%s=%s (%s)\n", option.name, option.value.c_str(), option.origin.c_str());
  auto* runtime = fairlead::device::whole_runtime();
  std::printf("provider %s\n", runtime ? runtime->name() : "none");
}
