// SPDX-License-Identifier: Apache-2.0
//
// When the ranks of a communicator that spans nodes agree on the kind of memory that a collective gets. No
// rank sees what memory the ranks of other nodes pass, and one small collective of the host MPI before each
// call would slow down programs that pass host memory. So calls fall into classes, by function and length,
// because a program passes the same kind of memory in calls of one class. After a call in which all ranks
// passed device memory, the ranks agree on the next call of its class as well. After any other call they
// leave some calls of its class to the host MPI: 1, 3, 7, up to 63.
//
// All ranks count the same calls and get the same results, so they always do the same. A nonblocking call
// cannot wait for an agreement: it goes by the last one of its class.
//
// If no rank knows how long the call is for the others, as in MPI_Alltoallv, all calls of the function are
// one class, of 0 bytes. Once all ranks have passed device memory, they leave out some agreements there, too,
// and take it that the memory is the same: any other gives the right result.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>

namespace fairlead::coll {

class MemoryAgreement {
 public:
  enum class Rule {
    as_found,       // as described above
    at_every_call,  // for programs in which the memory changes from call to call
    never,          // the program asserts that no call gets device memory
  };
  void set_rule(Rule rule) { rule_ = rule; }
  Rule rule() const { return stopped_ ? Rule::never : rule_; }
  // From here on the rule is `never`, whatever set_rule() says later.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // Counts a call of this function, a number below 2^20, and this many bytes. True if the ranks must agree on
  // it.
  bool count(unsigned function, uint64_t bytes) {
    if (rule() != Rule::as_found) return rule() == Rule::at_every_call;
    Class& its = classes_[name(function, bytes)];
    if (its.left == 0) return true;
    --its.left;
    return false;
  }
  // The same for a call that may not wait: true if its ranks must agree while it is in progress. At most one
  // such agreement of a class is under way.
  bool count_nonblocking(unsigned function, uint64_t bytes) {
    if (rule() == Rule::never || (rule() == Rule::at_every_call && bytes > 0)) return false;
    Class& its = classes_[name(function, bytes)];
    if (its.is_under_way || (rule() == Rule::at_every_call && its.longest > 0) || !count(function, bytes))
      return false;
    return its.is_under_way = true;
  }
  // The result of the agreement on the call that was counted last: the bytes of its longest buffer, at least
  // 1, or 0 if not all ranks passed device memory.
  void learn(unsigned function, uint64_t bytes, uint64_t longest) {
    Class& its = classes_[name(function, bytes)];
    if ((longest > 0) != (its.longest > 0)) its.gap = 0;
    // Calls without a length are short, too, where an agreement costs much more than the call.
    if (bytes == 0)
      its.gap = longest > 0 ? std::min(2 * its.gap + 1, 63u) : std::min(8 * its.gap + 7, 4095u);
    else
      its.gap = longest > 0 ? 0 : std::min(2 * its.gap + 1, 63u);
    its.left = its.gap;
    its.longest = longest;
    its.is_under_way = false;
  }
  // The result of the last agreement on a call of this class; 0 if there was none.
  uint64_t longest(unsigned function, uint64_t bytes) const {
    if (rule() == Rule::never) return 0;
    if (rule() == Rule::at_every_call && bytes > 0) return bytes;
    const auto its = classes_.find(name(function, bytes));
    return its == classes_.end() ? 0 : its->second.longest;
  }

 private:
  struct Class {
    unsigned gap = 0, left = 0;
    uint64_t longest = 0;
    bool is_under_way = false;
  };
  static unsigned name(unsigned function, uint64_t bytes) {
    return function * 64 + static_cast<unsigned>(std::bit_width(bytes));
  }
  std::map<unsigned, Class> classes_;
  Rule rule_ = Rule::as_found;
  bool stopped_ = false;
};

}  // namespace fairlead::coll
