// SPDX-License-Identifier: Apache-2.0
//
// Calls a function every so many seconds, on a thread that does nothing else and takes no signals.

#pragma once

namespace fairlead::observe {

void start_ticking(int seconds, void (*told)());
void stop_ticking();

}  // namespace fairlead::observe
