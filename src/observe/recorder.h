// SPDX-License-Identifier: Apache-2.0
//
// Records, while FAIRLEAD_STATS, FAIRLEAD_TRACE or FAIRLEAD_RANGES is set, the program's MPI calls and the
// device messages they start. Each thread writes to its own tables without locks; other threads may read them
// at any time. If nothing is recorded, a call costs only the test of recording().
//
// This module identifies functions by number; src/mpi passes their names to open().

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>

#include "base/system/code_place.h"
#include "observe/histogram.h"
#include "observe/statistics.h"

namespace fairlead::observe {

namespace detail {
extern std::atomic<bool> recording;  // written in MPI_Init and MPI_Finalize only
}
inline bool recording() {
  return detail::recording.load(std::memory_order_acquire);
}

using NameOf = const char* (*)(int function);
void open(int functions, NameOf name_of);
// Ends recording; the recorded data stays.
void close();

// Times are nanoseconds of CLOCK_MONOTONIC.
uint64_t now();

// Calls may be nested: the program's error handlers may call MPI.
struct KeptCalls;  // part.h
struct OpenCall {
  int function;
  KeptCalls* calls;  // those from the same place
  uint64_t since;
  uint64_t bytes;
  bool received;  // a flow event of the trace ended in this call
};

// Returns this thread's innermost recorded call; null outside of calls.
OpenCall* current_call();
// `site`: to which the call returns.
void begin_call(int function, uintptr_t site = 0);
void end_call();
// Of those that record something, from 0. The next new thread has the number of one that has ended.
int number_of_thread();

// Among the calls in progress on all threads, the one that began first. `function` is negative if there is
// none.
struct OldestCall {
  int function = -1;
  uint64_t since = 0;
};
OldestCall oldest_call();

// What a row of the statistics counts: the calls of a function, or the device messages it started that took
// one path.
struct Key {
  int function;
  Traffic path;  // Traffic::rows: the calls themselves
  auto operator<=>(const Key&) const = default;
};
constexpr Traffic calls = Traffic::rows;

struct Tally {
  uint64_t count = 0, bytes = 0, nanoseconds = 0, longest = 0;
  Histogram histogram{};
  void add(uint64_t bytes, uint64_t nanoseconds);
  void add(const Tally& more);
};
using Tallies = std::map<Key, Tally>;

void add(const Key& key, uint64_t bytes, uint64_t nanoseconds);

// Returns the sums over all threads so far.
Tallies tallies();

// The same of the calls of a function from one place in the program.
struct Site {
  int function;
  CodePlace place;
  auto operator<=>(const Site&) const = default;
};
using Sites = std::map<Site, Tally>;
Sites sites();

}  // namespace fairlead::observe
