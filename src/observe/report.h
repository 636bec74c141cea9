// SPDX-License-Identifier: Apache-2.0
//
// Formats recorded data as text and as JSON. Independent of MPI and of the source of the numbers.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "observe/phases.h"
#include "observe/recorder.h"
#include "observe/spread.h"

namespace fairlead::observe {

// The calls of one function, compared between the ranks.
struct SpreadOfCalls {
  Spread nanoseconds, count;
};

struct Report {
  std::string whose;  // "4 ranks", "rank 2 of 4 so far"
  int ranks = 1;
  double seconds = 0;                     // since MPI_Init
  std::vector<uint64_t> messages, bytes;  // by Traffic
  std::vector<uint64_t> fallbacks;        // by Fallback
  Tallies tallies;
  std::map<int, SpreadOfCalls> spreads;  // by function; empty in the report of one process
  Phase phases;
};

// Returns the report of this process.
Report own_report();

std::string as_table(const Report& report, NameOf name_of);
std::string as_json(const Report& report, NameOf name_of);

// Formats the progress of a process as one line; (+n) is the increase since `before`.
std::string as_line(const Report& report, const Report& before, const OldestCall& oldest, NameOf name_of);

// Format numbers compactly: "12.3 us", "1.50 MiB".
std::string in_words_of_time(double nanoseconds);
std::string in_words_of_size(uint64_t bytes);

}  // namespace fairlead::observe
