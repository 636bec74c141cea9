// SPDX-License-Identifier: Apache-2.0
//
// Phases of the program, which it marks by include/fairlead/phases.h: a tree by name, the same for all
// threads, with how often and how long each was entered. A phase that was begun before recording is not
// known.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fairlead::observe {

void begin_phase(const char* name);
void end_phase();
const char* name_of_phase(int number);

// One phase and those within it, in the order of their first begin.
struct Phase {
  std::string name;
  uint64_t count = 0;
  uint64_t nanoseconds = 0;      // of all threads and ranks
  uint64_t least = 0, most = 0;  // of a rank's
  std::vector<Phase> inner;

  Phase* find_or_add(const std::string& name);
  uint64_t self() const;
};

// The root has no name. Of this process: what is over by now.
Phase own_phases();

// As text, to be sent and added up. Ranks that never entered a phase took no time for it.
std::string encode(const Phase& root);
Phase add_up(const std::vector<std::string>& encoded);

std::string as_table(const Phase& root, int ranks);
// Elements of a JSON array, without their braces.
std::vector<std::string> as_json(const Phase& root, int ranks);

}  // namespace fairlead::observe
