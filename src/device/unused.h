// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and graphs that are no longer needed, where the call of the driver that ends them may not
// be made at once (blocking_driver_calls.h). Thread-safe.

#pragma once

#include <functional>

#include "device/runtime.h"

namespace fairlead::device {

// Calls `end` now if it may be, else in a later round of progress; never if streams still wait after
// MPI_Finalize. What ended with its context never reaches the driver.
void end_unused(std::function<void(Runtime&)> end);

// Tries again. Costs a load if there is nothing to end.
enum class Again : bool { now_and_then, at_once };
void end_unused_again(Again again = Again::now_and_then);

}  // namespace fairlead::device
