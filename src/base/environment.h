// SPDX-License-Identifier: Apache-2.0
//
// The only access to environment variables in src. A process with raised privileges (set-user-ID,
// set-group-ID, file capabilities) finds none here: whoever starts it chose them. Callers must not change the
// environment meanwhile.

#pragma once

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>

namespace fairlead {

// Null if the variable is not set.
inline const char* environment_variable(const char* name) {
  return secure_getenv(name);
}

// All of them as NAME=value; null behind the last one.
inline const char* const* environment_variables() {
  static const char* const none[] = {nullptr};
  return environ && !getauxval(AT_SECURE) ? environ : none;
}

}  // namespace fairlead
