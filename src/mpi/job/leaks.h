// SPDX-License-Identifier: Apache-2.0
//
// What this rank still holds at its end (FAIRLEAD_CHECK=leaks): MPI_Finalize warns of it, one line for
// each rank of what and how much; at level info "leaks: none". A program that completed and freed what it
// started leaves nothing, save the offers of messages that a receive too short for a descriptor has
// swallowed.

#pragma once

#include <string>

namespace fairlead::mpi {

class LeakCheck {
 public:
  // Once all ranks have come to MPI_Finalize, before the rest is released: what nobody came for.
  void count_unfinished();
  // After that: what was not given back to the driver.
  void count_unreleased();
  void print() const;

 private:
  void add(size_t count, const char* what);
  std::string found_;
};

}  // namespace fairlead::mpi
