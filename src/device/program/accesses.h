// SPDX-License-Identifier: Apache-2.0
//
// What the program's kernels access, for FAIRLEAD_CHECK=accesses on NVIDIA GPUs: NVIDIA's Sanitizer API,
// which comes with the CUDA toolkit and is opened at run time, makes their accesses to global memory call
// accesses_patch.cpp. That notes the bytes among program::watched_bytes(). Launches of the program are made
// one at a time, and each is waited for. cupti.cpp subscribes, and asks. A process has one subscriber.

#pragma once

#include "device/program/work.h"

namespace fairlead::device::program {

// Callbacks that accesses.cpp needs, by domain and number.
struct AccessCallback {
  int domain;
  unsigned number;
  void (*handle)(const void* data);
};
extern const AccessCallback access_callbacks[6];

// The functions of the library, and whether there are patches. Else `*why_not` says what is missing.
bool can_record_accesses(void* library, const char** why_not);

// The calling thread's next launch. Between these calls no other thread launches.
void launch_begins();
// If the launch has been recorded, waits for its end and adds what it has accessed.
void launch_ends(Work* work);

}  // namespace fairlead::device::program
