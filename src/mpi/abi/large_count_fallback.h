// SPDX-License-Identifier: Apache-2.0
//
// Large-count functions on a host MPI that lacks them (generated/narrowed.cpp): each calls its ordinary form,
// as long as all counts fit; a message may have any count, by a type that is made for it. We export both
// forms, and a program that finds one with dlsym(), or by a weak reference as mpi4py does, takes it for the
// host's.
//
// Arguments that have another type there are temporaries of the call. They throw TooLarge where a number does
// not fit.

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

// So many elements of a message: where their number does not fit, one element of a type that is made of them.
// The host MPI keeps that type for as long as it needs it.
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
  explicit FallbackOutput(Wide* place) : place_(place), value_(static_cast<Narrow>(*place)) {}
  ~FallbackOutput() { *place_ = value_; }
  FallbackOutput(const FallbackOutput&) = delete;
  FallbackOutput& operator=(const FallbackOutput&) = delete;
  operator Narrow*() { return &value_; }

 private:
  Wide* place_;
  Narrow value_;
};

template <class Narrow, class Wide>
FallbackOutput<Narrow, Wide> fallback_output(Wide* place) {
  return FallbackOutput<Narrow, Wide>(place);
}

// Counts or displacements, `many` of them.
class FallbackArray {
 public:
  template <class Number>
  FallbackArray(const Number* numbers, int many) : given_(numbers) {
    for (int i = 0; numbers && i < many; ++i) numbers_.push_back(narrow(numbers[i]));
  }
  // Until the call returns; of an empty array there is one, too.
  operator const int*() {
    if (numbers_.empty()) numbers_.push_back(0);
    return given_ ? numbers_.data() : nullptr;
  }
  // For ever.
  const int* keep() const { return given_ ? kept(numbers_) : nullptr; }

 private:
  bool given_;
  std::vector<int> numbers_;
};

// Newer functions that can be made of older ones: what takes their place; null of others.
void* made_of_older(Function function);

}  // namespace fairlead::mpi
