// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm a collective takes: the one that FAIRLEAD_COLL names, else the one of the first rule that
// fits, of the file that FAIRLEAD_TUNING names and then of those that are shipped (tuning.h).
//
// All members of a communicator must choose alike. So a choice depends on what all of them know, and in
// MPI_Init the ranks compare their words and rules; where they differ all use the shipped rules. Only
// `staged` may be chosen by some alone, and `nccl` be possible for some alone: then the meeting decides it
// for all (meeting.h).

#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coll/tuning.h"

namespace fairlead::coll {

class Choice {
 public:
  // The shipped rules.
  Choice() : Choice({}, {}) {}
  // Words of FAIRLEAD_COLL, and rules that come before the shipped ones.
  Choice(const std::set<std::string>& words, const Rules& rules);

  // Which of NCCL's and Fairlead's own may be taken?
  enum class Among { all, own };
  Algorithm of(Family family, uint64_t bytes, int members, Among among = Among::all) const;
  // May it come to NCCL at all?
  bool names_nccl() const;
  // Do the words say so?
  bool is_forced(Algorithm algorithm) const;
  bool must_stage(Family family) const;
  // The same for the same words and rules, on any rank.
  uint64_t digest() const;

 private:
  struct OfFamily {
    std::optional<Algorithm> forced;
    Rules rules;
  };
  std::array<OfFamily, std::size(families)> families_;
};

// From the options. `wrong`: what of them is not used, and why.
Choice wanted_choice(std::vector<std::string>* wrong);

// The choice in force; set in MPI_Init, before the first collective.
const Choice& choice();
void set_choice(Choice choice);

}  // namespace fairlead::coll
