// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and memory of the device that are no longer needed, where the call of the driver that ends
// them may not be made at once (blocking_driver_calls.h). Thread-safe.

#pragma once

#include <functional>

#include "device/context.h"

namespace fairlead::device {

// Calls `end` now if it may be, else in a later round of progress; never once the context is gone, or if
// streams still wait in MPI_Finalize.
void end_unused(const Context& context, std::function<void(Runtime&)> end);

// Tries again. Costs a load if there is nothing to end.
void end_unused_again();

}  // namespace fairlead::device
