// SPDX-License-Identifier: Apache-2.0
//
// When the ranks of a communicator that spans nodes agree on the kind of memory that a collective gets. No
// rank sees what memory the ranks of other nodes pass, and one small collective of the host MPI before each
// call would slow down programs that pass host memory. So calls fall into classes, by function and length,
// because a program passes the same kind of memory in calls of one class. After a call in which all ranks
// passed device memory, the ranks agree on the next call of its class as well. After any other call they
// leave some calls of its class to the host MPI: 1, 3, 7, up to 63.
//
// All ranks count the same calls and get the same results, so they always do the same.

#pragma once

#include <bit>
#include <cstdint>
#include <map>

#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

class MemoryAgreement {
 public:
  // Counts a call of this many bytes. True if the ranks must agree on it.
  bool count(Collective function, uint64_t bytes) {
    Class& its = classes_[name(function, bytes)];
    if (its.left == 0 || at_every_call_) return true;
    --its.left;
    return false;
  }
  // The result of the agreement on the call that was counted last.
  void learn(Collective function, uint64_t bytes, bool all_on_device) {
    Class& its = classes_[name(function, bytes)];
    its.gap = all_on_device ? 0 : its.gap < longest_gap ? 2 * its.gap + 1 : longest_gap;
    its.left = its.gap;
  }
  // For a program that asserts that each of its calls gets one kind of memory on all ranks: the ranks agree on
  // every call, so that no call with device memory is left to the host MPI.
  void agree_at_every_call(bool always) { at_every_call_ = always; }
  bool agrees_at_every_call() const { return at_every_call_; }

 private:
  static constexpr unsigned longest_gap = 63;
  struct Class {
    unsigned gap = 0, left = 0;
  };
  static unsigned name(Collective function, uint64_t bytes) {
    return static_cast<unsigned>(function) * 64 + static_cast<unsigned>(std::bit_width(bytes));
  }
  std::map<unsigned, Class> classes_;
  bool at_every_call_ = false;
};

}  // namespace fairlead::mpi
