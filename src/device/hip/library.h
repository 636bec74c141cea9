// SPDX-License-Identifier: Apache-2.0
//
// Which HIP runtime does this process use? The program's, wherever it comes from: two of them in one process
// do not know each other's memory. So none is opened until Fairlead itself needs a GPU; until then, what the
// program loads is looked for.

#pragma once

#include <string>

namespace fairlead::device {

// A handle of the runtime that is loaded, or null. Of several, the one whose functions the program finds; the
// log names all.
void* loaded_hip();

// That, or else the newest that is installed; null, and why, if there is none.
void* open_hip(std::string* why_not);

// Says once when another runtime was loaded. To be called when memory is unknown to the one that is used;
// looks at most every tenth of a second, and only when the process has loaded something since.
void look_for_another_hip();

}  // namespace fairlead::device
