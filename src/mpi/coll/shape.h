// SPDX-License-Identifier: Apache-2.0
//
// What each collective function does (shape.def): which ranks send which blocks to which. All code that
// depends on the function asks its shape; the arguments that follow from it are in collective_call.h.

#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/algorithms.h"

namespace fairlead::mpi {

enum class Collective {
#define FAIRLEAD_COLLECTIVE(name, ...) name,
#define FAIRLEAD_NEIGHBORS(name, ...) name,
#include "mpi/coll/shape.def"
#undef FAIRLEAD_COLLECTIVE
#undef FAIRLEAD_NEIGHBORS
};

// Which ranks: `others` than the root.
enum class Who : uint8_t { all, root, others };
// What a buffer holds: one block, or a block for each rank or neighbour; `each` of one count, or one after
// arrays of counts and displacements, or also of datatypes. In MPI_Reduce_scatter the blocks follow each
// other.
enum class Blocks : uint8_t { none, one, each, counted, typed };
// What MPI_IN_PLACE means. As the send buffer: this rank's `own` block lies where it is received; or all of
// the `input` lies in the receive buffer. As the receive buffer, at the root: the `result` stays where it is.
enum class InPlace : uint8_t { no, own, input, result };
// Of which ranks the result is a reduction.
enum class Reduces : uint8_t { no, all, up_to_own, before_own };

constexpr bool has_arrays(Blocks blocks) {
  return blocks == Blocks::counted || blocks == Blocks::typed;
}
constexpr bool is_for_each(Blocks blocks) {
  return blocks == Blocks::each || has_arrays(blocks);
}

struct CollectiveShape {
  Who gives;
  Blocks sent;
  Who gets;
  Blocks received;
  InPlace in_place;
  Reduces reduction;
  bool among_neighbors;
  coll::Family family;  // whose algorithms it takes
  bool nccl;            // NCCL has it, too

  constexpr bool reduces() const { return reduction != Reduces::no; }
  constexpr bool is_rooted() const { return gives == Who::root || gets == Who::root; }
  constexpr bool has_arrays() const { return mpi::has_arrays(sent) || mpi::has_arrays(received); }
  constexpr bool has_a_block_for_each() const { return is_for_each(sent) || is_for_each(received); }
  // All ranks know the lengths of all blocks.
  constexpr bool knows_lengths() const {
    return !among_neighbors && (!has_arrays() || (!is_rooted() && sent != received));
  }
  // Blocks have one length, which all ranks know.
  constexpr bool is_even() const { return knows_lengths() && !has_arrays() && sent != Blocks::none; }
};

inline constexpr CollectiveShape shapes[] = {
#define FAIRLEAD_COLLECTIVE(name, gives, sent, gets, received, in_place, reduces, family, nccl)        \
  {Who::gives, Blocks::sent,         Who::gets, Blocks::received, InPlace::in_place, Reduces::reduces, \
   false,      coll::Family::family, nccl},
#define FAIRLEAD_NEIGHBORS(name, sent, received)                                           \
  {Who::all, Blocks::sent,           Who::all, Blocks::received, InPlace::no, Reduces::no, \
   true,     coll::Family::alltoall, false},
#include "mpi/coll/shape.def"
#undef FAIRLEAD_COLLECTIVE
#undef FAIRLEAD_NEIGHBORS
};

constexpr const CollectiveShape& shape_of(Collective function) {
  return shapes[static_cast<size_t>(function)];
}

// Is a rank among these? In an inter-communicator a rank that is neither the root nor a `leaf`, which
// exchanges data with the root, is among none.
constexpr bool is_among(Who who, bool root, bool leaf = true) {
  return who == Who::root ? root : leaf && (who == Who::all || !root);
}

}  // namespace fairlead::mpi
