// SPDX-License-Identifier: Apache-2.0
//
// Error reporting of the simulated GPU: an error code, and a message that the failing thread can read
// afterwards.

#pragma once

#include "device/runtime.h"

namespace fairlead::device::sim {

// Sets error_text() of the calling thread and returns `error`.
Error fail(Error error, const char* format, ...) __attribute__((format(printf, 2, 3)));
const char* last_error_text();
// Ends the process: the use of something that a reset has ended, which a driver may answer by anything.
[[noreturn]] void die(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace fairlead::device::sim
