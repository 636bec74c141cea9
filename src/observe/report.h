// SPDX-License-Identifier: Apache-2.0
//
// Formats recorded data as text and as JSON. Independent of MPI and of the source of the numbers.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "observe/json/provenance.h"
#include "observe/phases.h"
#include "observe/recorder.h"

namespace fairlead::observe {

// How a number differs between the ranks of a job. The median of an even number of ranks lies between the two
// middle values. Of ranks with equal values the lowest one is named.
struct Spread {
  uint64_t least = 0, median = 0, most = 0;
  int least_rank = 0, most_rank = 0;
};

// `of_ranks` has the value of each rank, and at least one.
inline Spread spread_of(std::vector<uint64_t> of_ranks) {
  const auto begin = of_ranks.begin(), end = of_ranks.end();
  const auto least = std::min_element(begin, end), most = std::max_element(begin, end);
  Spread spread{*least, 0, *most, static_cast<int>(least - begin), static_cast<int>(most - begin)};
  std::sort(begin, end);
  spread.median = std::midpoint(of_ranks[(of_ranks.size() - 1) / 2], of_ranks[of_ranks.size() / 2]);
  return spread;
}

// The calls of one function, compared between the ranks.
struct SpreadOfCalls {
  Spread nanoseconds, count;
};

// The calls of one function from one place, without their histogram.
struct CallsFromSite {
  int function;
  std::string place;
  Tally tally;
};
// By function, the longest time first. With the lines of the source it is for reports of what is over.
std::vector<CallsFromSite> listed(const Sites& sites, bool with_lines);

// Encodes the sites of a rank as text, and sums the texts of several ranks.
std::string encode(const Sites& sites);
Sites add_up_sites(const std::vector<std::string>& encoded);

struct Report {
  std::string whose;  // "4 ranks", "rank 2 of 4 so far"
  int ranks = 1;
  double seconds = 0;                     // since MPI_Init
  std::vector<uint64_t> messages, bytes;  // by Traffic
  std::vector<uint64_t> fallbacks;        // by Fallback
  Tallies tallies;
  Spread in_mpi;                         // nanoseconds in MPI calls
  std::map<int, SpreadOfCalls> spreads;  // by function; empty in the report of one process
  std::vector<CallsFromSite> sites;
  Phase phases;
  std::optional<std::vector<int>> missing =
      {};  // ranks of which nothing is known, if the job has ended early
};

// Returns the report of this process.
Report own_report();

std::string as_table(const Report& report, NameOf name_of);
std::string as_json(const Report& report, const Provenance& provenance, NameOf name_of);

// Formats the progress of a process as one line; (+n) is the increase since `before`.
std::string as_line(const Report& report, const Report& before, const OldestCall& oldest, NameOf name_of);

// Format numbers compactly: "12.3 us", "1.50 MiB".
std::string in_words_of_time(double nanoseconds);
std::string in_words_of_size(uint64_t bytes);

}  // namespace fairlead::observe
