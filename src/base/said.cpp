// SPDX-License-Identifier: Apache-2.0

#include "base/said.h"

#include <cstdlib>
#include <mutex>

#include "base/environment.h"

namespace fairlead {
namespace {

std::mutex mutex;

// ",FAIRLEAD_STAT,FAIRLEAD_DEVICE,". Never destroyed: options are read until the very end of the process.
std::string& said() {
  static auto* words = [] {
    const char* before = environment_variable(said_variable);
    return new std::string(before && *before ? before : ",");
  }();
  return *words;
}

}  // namespace

bool said_before(const std::string& what) {
  std::lock_guard lock(mutex);
  if (said().find("," + what + ",") != std::string::npos) return true;
  said() += what + ",";
  return false;
}

void hand_over_what_was_said() {
  std::lock_guard lock(mutex);
  if (said() != ",") setenv(said_variable, said().c_str(), 1);
}

}  // namespace fairlead
