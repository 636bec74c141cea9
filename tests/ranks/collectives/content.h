// SPDX-License-Identifier: Apache-2.0
//
// What buffers of collectives hold: items of datatypes with gaps, and reductions, computed on the host.

#pragma once

#include "collectives/exercise.h"

namespace ranks::coll {

const Layout& layout_of(Types types, uint64_t dice);

// `count` items of a pattern, as an MPI receive would place them.
void place_items(char* to, const Layout& layout, int count, uint64_t key);

// A predefined operation on a predefined type, and what it gives. Contributions are such that floating-point
// results are exact.
struct Arithmetic {
  Layout layout;
  MPI_Op op;
  void (*contribute)(uint64_t key, int first, int count, char* to);
  void (*fold)(char* into, const char* other, int count);
};
const Arithmetic& arithmetic(uint64_t dice);

// Items first .. first + count of the reduction of what consecutive ranks contribute.
void reduce_into(char* to, const Arithmetic& arithmetic, uint64_t key, int first_rank, int ranks, int first,
                 int count);

}  // namespace ranks::coll
