// SPDX-License-Identifier: Apache-2.0
//
// Selects the HIP runtime of this process. It must be the one the program uses, wherever that comes from: two
// runtimes in one process do not know each other's memory. Therefore Fairlead opens none until it needs a GPU
// itself; until then it only looks for a runtime that the program has loaded.

#pragma once

#include <string>

namespace fairlead::device {

// The newest first. The name without a number is a development link, which may point to any release.
inline constexpr const char* hip_library_names[] = {"libamdhip64.so.10", "libamdhip64.so.7",
                                                    "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};

// Returns a handle of the loaded runtime, or null. If there are several, returns the one that the program's
// symbol lookup finds; the log names all of them.
void* loaded_hip();

// Returns the loaded runtime, else opens the newest one installed; null and the reason if there is none.
void* open_hip(std::string* why_not);

// Logs once if the process has loaded another runtime. Called when the runtime in use does not know an
// address. Checks at most every tenth of a second, and only if the process has loaded a library since.
void look_for_another_hip();

}  // namespace fairlead::device
