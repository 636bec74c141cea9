// SPDX-License-Identifier: Apache-2.0
//
// What this process records while FAIRLEAD_STATS, FAIRLEAD_TRACE or FAIRLEAD_RANGES ask for it: the program's
// MPI calls, and the device messages they start. Each thread writes to tables of its own, without locks;
// another thread may read them at any time. While nothing is asked for, a call costs a look at recording().
//
// Functions are numbers here; src/mpi, which knows their names, gives them to open().

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>

#include "base/statistics.h"
#include "observe/histogram.h"

namespace fairlead::observe {

namespace detail {
extern std::atomic<bool> recording;  // written in MPI_Init and MPI_Finalize only
}
inline bool recording() {
  return detail::recording.load(std::memory_order_relaxed);
}

using NameOf = const char* (*)(int function);
void open(int functions, NameOf name_of);
// Ends recording; what was recorded stays.
void close();

// Times are nanoseconds of CLOCK_MONOTONIC.
uint64_t now();

// Calls may be nested: the program's error handlers may call MPI.
struct OpenCall {
  int function;
  uint64_t since;
  uint64_t bytes;
  bool received;  // a flow of the trace ended in it
};

// The call of this thread that is being recorded; null outside of any.
OpenCall* current_call();
void begin_call(int function);
void end_call();

// Of the calls that threads are in, the one that began first. `function` is negative where there is none.
struct OldestCall {
  int function = -1;
  uint64_t since = 0;
};
OldestCall oldest_call();

// What a row of the statistics is about: a function's calls, or the device messages it started that went one
// way.
struct Key {
  int function;
  Traffic path;  // rows: the calls themselves
  auto operator<=>(const Key&) const = default;
};
constexpr Traffic calls = Traffic::rows;

struct Tally {
  uint64_t count = 0, bytes = 0, nanoseconds = 0, longest = 0;
  Histogram histogram{};
  void add(uint64_t bytes, uint64_t nanoseconds);
};
using Tallies = std::map<Key, Tally>;

void add(const Key& key, uint64_t bytes, uint64_t nanoseconds);

// Of all threads, until now.
Tallies tallies();

}  // namespace fairlead::observe
