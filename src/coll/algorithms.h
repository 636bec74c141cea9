// SPDX-License-Identifier: Apache-2.0
//
// The rows of algorithms.def as constants. choice.h decides which of them a call takes;
// src/mpi/coll/collective_work.cpp implements them.

#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace fairlead::coll {

enum class Family {
#define FAIRLEAD_FAMILY(name, collectives) name,
#define FAIRLEAD_ALGORITHM(family, name, members, what)
#include "base/algorithms.def"
#undef FAIRLEAD_FAMILY
#undef FAIRLEAD_ALGORITHM
};

enum class Algorithm {
#define FAIRLEAD_FAMILY(name, collectives)
#define FAIRLEAD_ALGORITHM(family, name, members, what) family##_##name,
#include "base/algorithms.def"
#undef FAIRLEAD_FAMILY
#undef FAIRLEAD_ALGORITHM
};

struct FamilyRow {
  Family id;
  std::string_view name;
  std::string_view collectives;
};

struct AlgorithmRow {
  Algorithm id;
  Family family;
  std::string_view name;
  int members;
  std::string_view what;
};

inline constexpr FamilyRow families[] = {
#define FAIRLEAD_FAMILY(name, collectives) {Family::name, #name, collectives},
#define FAIRLEAD_ALGORITHM(family, name, members, what)
#include "base/algorithms.def"
#undef FAIRLEAD_FAMILY
#undef FAIRLEAD_ALGORITHM
};

inline constexpr AlgorithmRow algorithms[] = {
#define FAIRLEAD_FAMILY(name, collectives)
#define FAIRLEAD_ALGORITHM(family, name, members, what) \
  {Algorithm::family##_##name, Family::family, #name, members, what},
#include "base/algorithms.def"
#undef FAIRLEAD_FAMILY
#undef FAIRLEAD_ALGORITHM
};

constexpr const FamilyRow& row_of(Family family) {
  return families[static_cast<size_t>(family)];
}
constexpr const AlgorithmRow& row_of(Algorithm algorithm) {
  return algorithms[static_cast<size_t>(algorithm)];
}
// Does the host MPI run this algorithm, through host memory? Each family has one such algorithm.
constexpr bool is_staged(Algorithm algorithm) {
  return row_of(algorithm).name == "staged";
}
constexpr bool is_meeting(Algorithm algorithm) {
  return row_of(algorithm).name == "meet";
}
constexpr bool is_nccl(Algorithm algorithm) {
  return row_of(algorithm).name == "nccl";
}

}  // namespace fairlead::coll
