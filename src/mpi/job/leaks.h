// SPDX-License-Identifier: Apache-2.0
//
// What this rank still holds when it ends (FAIRLEAD_CHECK=leaks). MPI_Finalize logs a warning for each call
// that was never completed, and one with what and how much else there is, or "leaks: none" at level info. A
// program that completed and freed what it started leaves nothing, except the rendezvous of messages whose
// RTS header was truncated by a receive too short for it.

#pragma once

#include <string>
#include <vector>

namespace fairlead::mpi {

class LeakCheck {
 public:
  LeakCheck();
  // Counts operations and resources that were never completed. Call it once all ranks are in MPI_Finalize,
  // before the rest is released.
  void count_unfinished();
  // Counts what was not returned to the driver. Call it after the release.
  void count_unreleased();
  void print() const;

 private:
  template <class Counts>
  void add(const Counts& counts);
  bool wanted_;  // FAIRLEAD_CHECK=leaks
  std::vector<std::string> calls_;
  std::string found_;
};

}  // namespace fairlead::mpi
