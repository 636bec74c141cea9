// SPDX-License-Identifier: Apache-2.0
//
// Calls a function at a fixed interval in seconds, on a thread of its own that handles no signals.

#pragma once

namespace fairlead::observe {

void start_ticking(int seconds, void (*told)());
void stop_ticking();

}  // namespace fairlead::observe
