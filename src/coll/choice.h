// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm a collective takes: the one that FAIRLEAD_COLL names; otherwise that of the first rule that
// fits the call, in the file that FAIRLEAD_TUNING names and then among the shipped rules (tuning.h).
//
// All members of a communicator must choose the same algorithm. A choice therefore depends only on what all
// members know, and in MPI_Init the ranks compare their words and rules; if these differ, all ranks use the
// shipped rules. There are two exceptions: some members alone may choose `staged`, and `nccl` or `meet` may
// be possible for some members only. In these cases the collective slot decides for all (collective_slot.h).

#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coll/tuning.h"

namespace fairlead::coll {

// Which of the algorithms that support only some calls may be chosen.
struct Among {
  bool nccl = false, meet = false;
};

class Choice {
 public:
  static constexpr Among all{true, true}, always_possible{};
  // The shipped rules.
  Choice() : Choice({}, {}) {}
  // `words`: the value of FAIRLEAD_COLL. `rules`: rules that take precedence over the shipped ones.
  Choice(const std::set<std::string>& words, const Rules& rules);

  Algorithm of(Family family, uint64_t bytes, int members, Among among = all) const;
  struct Chosen {
    Algorithm algorithm;  // one that is always possible
    bool nccl_first;      // `algorithm` only if not all members can use NCCL
  };
  // `nccl`: this rank could use NCCL.
  Chosen of_call(Family family, uint64_t bytes, int members, bool in_place, bool nccl) const;
  // What decides on such a call, in words: FAIRLEAD_COLL, the file of FAIRLEAD_TUNING, or the shipped rules.
  const char* decided_by(Family family, uint64_t bytes, int members, Among among) const;
  // Can any call select an algorithm of NCCL?
  bool names_nccl() const;
  // Does FAIRLEAD_COLL force this algorithm for its family?
  bool is_forced(Algorithm algorithm) const;
  // Does FAIRLEAD_COLL demand staging? The rules do not count, because they apply to one node.
  bool must_stage(Family family) const;
  // A hash of words and rules: ranks with equal words and rules have equal digests.
  uint64_t digest() const;

 private:
  struct OfFamily {
    std::optional<Algorithm> forced;
    Rules rules;
    size_t given = 0;  // so many, the first, come from the file

    size_t first_that_fits(uint64_t bytes, int members, Among among) const;
  };
  std::array<OfFamily, std::size(families)> families_;
};

// The choice that the options request. `wrong` receives a message for each setting that is not used, and why.
Choice wanted_choice(std::vector<std::string>* wrong);

// The choice in force; set in MPI_Init, before the first collective.
const Choice& choice();
void set_choice(Choice choice);

}  // namespace fairlead::coll
