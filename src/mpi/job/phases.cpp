// SPDX-License-Identifier: Apache-2.0
//
// The functions behind include/fairlead/phases.h.

#include "observe/phases.h"

#include "mpi/abi/real.h"

extern "C" FAIRLEAD_EXPORT void fairlead_phase_begin(const char* name) {
  fairlead::observe::begin_phase(name);
}

extern "C" FAIRLEAD_EXPORT void fairlead_phase_end(void) {
  fairlead::observe::end_phase();
}
