// SPDX-License-Identifier: Apache-2.0
//
// Calls a function whenever the process receives SIGUSR1, on a thread of its own: a signal may arrive at any
// point, even while the interrupted thread holds a lock. A handler installed earlier (MPICH has one) is
// called as well.

#pragma once

namespace fairlead::observe {

void start_listening(void (*told)());
void stop_listening();

}  // namespace fairlead::observe
