// SPDX-License-Identifier: Apache-2.0
//
// Reductions by any operation on any type, and their exact results, computed by the host element by element.

#pragma once

#include <string>
#include <vector>

#include "collectives/exercise.h"

namespace ranks::coll {

// An operation on a datatype, for elements of C memory.
struct Operation {
  std::string name;
  MPI_Datatype type;
  MPI_Op op;
  size_t bytes;                                    // from one element to the next
  void (*make)(uint64_t dice, void* element);      // a contribution
  void (*fold)(void* into, const void* from);      // into = into op from
  bool (*same)(const void* one, const void* two);  // as values: padding does not count
};

// Every predefined operation on every predefined type that the standard allows, and that the MPI has and gets
// right on host memory.
std::vector<Operation> predefined_operations();

// A reduction by MPI_Reduce, _Allreduce, _Scan, _Exscan, _Reduce_scatter or _Reduce_scatter_block.
struct Reduction {
  Kind kind;
  MPI_Comm comm;
  int root;
  int count;
  bool in_place;
  Place from, to;
  uint64_t key;
};
void check_reduction(const Operation& operation, const Reduction& reduction);

void check_reduce_local(const Operation& operation, int count, Place from, Place to, uint64_t key);

}  // namespace ranks::coll
