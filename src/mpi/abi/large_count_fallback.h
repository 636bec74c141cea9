// SPDX-License-Identifier: Apache-2.0
//
// Large-count functions for a host MPI that lacks them (generated/large_count_functions.cpp). Each calls its
// ordinary form if all counts fit. A message may have any count: a datatype is created for a count that does
// not fit. Fairlead exports both forms, and a program that finds one with dlsym(), or by a weak reference as
// mpi4py does, takes it for the host MPI's.
//
// Arguments that have another type in the ordinary form are temporaries of the call. They throw TooLarge if a
// number does not fit.

#pragma once

#include <limits>
#include <vector>

#include "mpi/abi/array_lengths.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/abi/real.h"

namespace fairlead::mpi {

struct TooLarge {};

template <class Number>
int narrow(Number number) {
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) throw TooLarge();
  return static_cast<int>(number);
}

// A number of elements of a message. If the number does not fit, this is one element of a datatype made of
// them. The host MPI keeps that datatype for as long as it needs it.
class FallbackElements {
 public:
  FallbackElements(MPI_Count count, MPI_Datatype datatype);
  ~FallbackElements();
  FallbackElements(const FallbackElements&) = delete;
  FallbackElements& operator=(const FallbackElements&) = delete;
  int count() const { return count_; }
  MPI_Datatype datatype() const { return datatype_; }

 private:
  int count_ = 1;
  MPI_Datatype datatype_;
  MPI_Datatype made_ = MPI_DATATYPE_NULL;
};

// A number that the call reads and writes, or only writes.
template <class Narrow, class Wide>
class FallbackOutput {
 public:
  explicit FallbackOutput(Wide* output) : output_(output), value_(static_cast<Narrow>(*output)) {}
  ~FallbackOutput() { *output_ = value_; }
  FallbackOutput(const FallbackOutput&) = delete;
  FallbackOutput& operator=(const FallbackOutput&) = delete;
  operator Narrow*() { return &value_; }

 private:
  Wide* output_;
  Narrow value_;
};

template <class Narrow, class Wide>
FallbackOutput<Narrow, Wide> fallback_output(Wide* output) {
  return FallbackOutput<Narrow, Wide>(output);
}

// An array of `many` counts or displacements.
class FallbackArray {
 public:
  template <class Number>
  FallbackArray(const Number* numbers, int many) : given_(numbers) {
    for (int i = 0; numbers && i < many; ++i) numbers_.push_back(narrow(numbers[i]));
  }
  // Valid until the call returns. An empty array has an address, too.
  operator const int*() {
    if (numbers_.empty()) numbers_.push_back(0);
    return given_ ? numbers_.data() : nullptr;
  }
  // Valid permanently.
  const int* keep() const { return given_ ? kept(numbers_) : nullptr; }

 private:
  bool given_;
  std::vector<int> numbers_;
};

// Returns the replacement of a newer function that can be built from older ones; null for any other function.
void* made_of_older(Function function);

}  // namespace fairlead::mpi
