// SPDX-License-Identifier: Apache-2.0
//
// Ranges of the vendors' profilers: with FAIRLEAD_RANGES, each MPI call and each phase of a thread is a range
// of NVTX (Nsight) or ROCTX (rocprof), and Fairlead's streams have names there. Their libraries are opened at
// run time; without them there are no ranges.

#pragma once

#include <cstring>

namespace fairlead::observe {

namespace detail {
extern int (*push_range)(const char* name);
extern int (*pop_range)();
extern void (*name_stream)(void* stream, const char* name);
extern const char* vendor_of_streams;  // "cuda", "rocm"
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

// `stream` is a CUstream if the runtime is "cuda", a hipStream_t if it is "rocm". Does nothing without a
// profiler of these streams.
inline void name_stream(const char* runtime, void* stream, const char* name) {
  if (detail::name_stream && std::strcmp(runtime, detail::vendor_of_streams) == 0)
    detail::name_stream(stream, name);
}

// `which`: auto, nvtx, roctx. Logs which library it found.
void open_ranges(const char* which);

}  // namespace fairlead::observe
