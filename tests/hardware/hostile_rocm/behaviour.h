// SPDX-License-Identifier: Apache-2.0
//
// What distinguishes the releases of ROCm that the hostile one can play: a row for each.
// src/device/hip/README.md says where it was read. FAIRLEAD_HOSTILE_RELEASE, a definition of the build,
// chooses the row.

#pragma once

#include <cstddef>

namespace hostile {

struct Behaviour {
  const char* release;
  int version;  // what hipDriverGetVersion() tells
  // hipMemoryType, hipIpcMemLazyEnablePeerAccess, and the symbol that tells it.
  bool is_renumbered = false;
  // Before, the functions of virtual memory are there and take other structs.
  bool has_virtual_memory = false;
  // Else hipIpcGetMemHandle() makes a handle that nobody must open.
  bool ipc_refuses_virtual = false;
  // Else hipMemRetainAllocationHandle() of such memory dereferences null.
  bool retain_refuses_ordinary = false;
  // Else it adds no reference.
  bool retain_counts = false;
  // The file descriptor, not a pointer to it.
  bool imports_by_value = false;
  // hsa_amd_pointer_info() has a type for virtual memory.
  bool rocr_names_virtual = false;
  // A copy from a GPU to another process's memory of a GPU that ROCR_VISIBLE_DEVICES hides never ends.
  bool loses_copies_to_hidden = false;
  // The handle 1 is the default stream, else no stream.
  bool has_legacy_stream = false;
  // Else every GPU's UUID is XX.
  bool has_serial_numbers = false;
  // How many functions the table has that is shown to profilers; 0: none is shown.
  size_t functions_shown = 0;
};

inline constexpr Behaviour behaviours[] = {
    {.release = "5.7", .version = 50731921},
    {.release = "6.2",
     .version = 60241134,
     .is_renumbered = true,
     .has_virtual_memory = true,
     .loses_copies_to_hidden = true,
     .functions_shown = 452},
    {.release = "7.12",
     .version = 71260540,
     .is_renumbered = true,
     .has_virtual_memory = true,
     .retain_counts = true,
     .imports_by_value = true,
     .rocr_names_virtual = true,
     .loses_copies_to_hidden = true,
     .has_legacy_stream = true,
     .has_serial_numbers = true,
     .functions_shown = 517},
    {.release = "7.14",
     .version = 71460850,
     .is_renumbered = true,
     .has_virtual_memory = true,
     .ipc_refuses_virtual = true,
     .retain_refuses_ordinary = true,
     .retain_counts = true,
     .imports_by_value = true,
     .rocr_names_virtual = true,
     .loses_copies_to_hidden = true,
     .has_legacy_stream = true,
     .has_serial_numbers = true,
     .functions_shown = 517},
};

constexpr bool is_release(const char* one, const char* other) {
  while (*one && *one == *other) ++one, ++other;
  return *one == *other;
}

consteval const Behaviour& behaviour_of(const char* release) {
  for (const Behaviour& row : behaviours)
    if (is_release(row.release, release)) return row;
  throw "no row of this release";
}

inline constexpr const Behaviour& behaviour = behaviour_of(FAIRLEAD_HOSTILE_RELEASE);

}  // namespace hostile
