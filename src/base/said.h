// SPDX-License-Identifier: Apache-2.0
//
// What was said of the environment and need not be said again. A rank is several programs in turn, `fairlead
// exec` and those that it becomes, and all of them read the same variables. The variable FAIRLEAD_SAID tells
// the later ones what the earlier ones have said. Thread-safe; usable before main().

#pragma once

#include <string>

namespace fairlead {

constexpr const char* said_variable = "FAIRLEAD_SAID";

// Returns whether something was said of `what`, by this program or one before it; from now on it was.
// `what` is the name of a variable, or another word without a comma.
bool said_before(const std::string& what);

// Tells the programs that this process becomes or starts. For tools only: a program's other threads may read
// the environment.
void hand_over_what_was_said();

}  // namespace fairlead
