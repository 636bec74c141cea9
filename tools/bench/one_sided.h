// SPDX-License-Identifier: Apache-2.0
//
// What the one-sided benchmarks repeat: a row for each access, and the words for windows and for what ends an
// access. Those words mean what they mean in the OSU micro-benchmarks.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fairlead::tools {

enum class Access { put, get, accumulate, get_accumulate, fetch_and_op, compare_and_swap };

struct AccessKind {
  Access id;
  const char* call;
  bool combines;  // what was there with what comes, by an operation on elements of a type
  bool fetches;   // what was there, besides
  bool one_word;  // of 64 bits, always
};

inline constexpr AccessKind access_kinds[] = {
    {Access::put, "MPI_Put", false, false, false},
    {Access::get, "MPI_Get", false, false, false},
    {Access::accumulate, "MPI_Accumulate", true, false, false},
    {Access::get_accumulate, "MPI_Get_accumulate", true, true, false},
    {Access::fetch_and_op, "MPI_Fetch_and_op", false, true, true},
    {Access::compare_and_swap, "MPI_Compare_and_swap", false, true, true},
};

constexpr const AccessKind& access_kind(Access id) {
  return access_kinds[static_cast<int>(id)];
}

inline constexpr uint64_t word_bytes = 8;  // of the accesses that take one

// MPI_Win_create and so on.
inline const std::vector<std::string> window_kinds = {"create", "allocate", "dynamic"};

// What begins and ends the accesses of a step. Those of passive targets leave the target out of it, which
// only waits in a call of MPI; in the active ones it takes part.
enum class Sync { flush, flush_local, lock, lock_all, fence, pscw };
inline const std::vector<std::string> active_syncs = {"fence", "pscw"};
inline const std::vector<std::string> all_syncs = {"flush",    "flush_local", "lock",
                                                   "lock_all", "fence",       "pscw"};

inline Sync sync_named(const std::string& name) {
  for (size_t i = 0; i < all_syncs.size(); ++i)
    if (name == all_syncs[i]) return static_cast<Sync>(i);
  return Sync::flush;
}

constexpr bool is_active(Sync sync) {
  return sync == Sync::fence || sync == Sync::pscw;
}

}  // namespace fairlead::tools
