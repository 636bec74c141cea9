// SPDX-License-Identifier: Apache-2.0
//
// Phases of the program, which it marks by include/fairlead/phases.h: a tree of names, the same for all
// threads, with count and duration of each phase. A phase that began before the recording is not included.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fairlead::observe {

void begin_phase(const char* name);
void end_phase();
int number_of_phase(const std::string& name);
const char* name_of_phase(int number);

// One phase and its inner phases, in the order of their first begin.
struct Phase {
  std::string name;
  uint64_t count = 0;
  uint64_t nanoseconds = 0;      // sum over all threads and ranks
  uint64_t least = 0, most = 0;  // minimum and maximum over ranks
  std::vector<Phase> inner;

  Phase* find_or_add(const std::string& name);
  uint64_t self() const;
};

// Returns the completed phases of this process so far. The root has no name.
Phase own_phases();

// Encodes phases as text, and sums the texts of several ranks. A rank that never entered a phase counts with
// time 0.
std::string encode(const Phase& root);
Phase add_up(const std::vector<std::string>& encoded);

std::string as_table(const Phase& root, int ranks);
// Returns the elements of a JSON array.
std::vector<std::string> as_json(const Phase& root, int ranks);

}  // namespace fairlead::observe
