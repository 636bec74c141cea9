// SPDX-License-Identifier: Apache-2.0
//
// Ranges of the vendors' profilers: with FAIRLEAD_RANGES, each MPI call and each phase of a thread is a range
// of NVTX (Nsight) or ROCTX (rocprof). Their libraries are opened at run time; without them there are no
// ranges.

#pragma once

namespace fairlead::observe {

namespace detail {
extern int (*push_range)(const char* name);
extern int (*pop_range)();
}  // namespace detail

inline bool ranges() {
  return detail::push_range != nullptr;
}
inline void begin_range(const char* name) {
  detail::push_range(name);
}
inline void end_range() {
  detail::pop_range();
}

// `which`: auto, nvtx, roctx. Logs which library it found.
void open_ranges(const char* which);

}  // namespace fairlead::observe
