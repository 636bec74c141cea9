// SPDX-License-Identifier: Apache-2.0
//
// The functions that fake_hip.cpp lacks: Fairlead takes no library without them.

#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...)                       \
  extern "C" __attribute__((weak, visibility("default"))) int name(...) { \
    return 801; /* not supported */                                       \
  }
#define FAIRLEAD_DRIVER_OPTIONAL(member, name, ...)
#include "device/hip/functions.def"
