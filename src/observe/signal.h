// SPDX-License-Identifier: Apache-2.0
//
// Calls a function whenever the process gets SIGUSR1, on a thread that waits for nothing else: the signal may
// come anywhere, also while a lock is held. A handler that was there before (MPICH has one) is called as
// well.

#pragma once

namespace fairlead::observe {

void start_listening(void (*told)());
void stop_listening();

}  // namespace fairlead::observe
