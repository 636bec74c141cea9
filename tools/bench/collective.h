// SPDX-License-Identifier: Apache-2.0
//
// What each collective moves: one row a collective, from which follow its buffers, its bandwidths and the
// words of its help. Sizes mean what they mean in the OSU micro-benchmarks, bandwidths what they mean in
// nccl-tests.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fairlead::tools {

enum class Collective {
  allreduce,
  bcast,
  reduce,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  gather,
  scatter,
  reduce_scatter,
  barrier
};

// Who has the buffer of one side of a collective.
enum class Owner { nobody, all, root, others };
// How much of it: the size, a block of the size for each rank, or a rank's share of the size.
enum class Extent { size, block_each, share };

struct CollectiveKind {
  Collective id;
  Owner sender;
  Extent sent;
  Owner receiver;
  Extent received;
  bool reduces;
  bool in_nccl;         // NCCL has it, or sends and receives in a group stand for it
  double steps;         // busbw is algbw times steps (n-1)/n; 0: busbw is algbw
  const char* meaning;  // of the size
};

inline constexpr CollectiveKind collective_kinds[] = {
    {Collective::allreduce, Owner::all, Extent::size, Owner::all, Extent::size, true, true, 2,
     "the vector of each rank"},
    {Collective::bcast, Owner::root, Extent::size, Owner::others, Extent::size, false, true, 0,
     "the message of the root"},
    {Collective::reduce, Owner::all, Extent::size, Owner::root, Extent::size, true, true, 0,
     "the vector of each rank"},
    {Collective::allgather, Owner::all, Extent::size, Owner::all, Extent::block_each, false, true, 1,
     "the block of each rank"},
    {Collective::allgatherv, Owner::all, Extent::size, Owner::all, Extent::block_each, false, false, 1,
     "the block of each rank, all alike"},
    {Collective::alltoall, Owner::all, Extent::block_each, Owner::all, Extent::block_each, false, true, 1,
     "the block from each rank to each"},
    {Collective::alltoallv, Owner::all, Extent::block_each, Owner::all, Extent::block_each, false, false, 1,
     "the block from each rank to each, all alike"},
    {Collective::gather, Owner::all, Extent::size, Owner::root, Extent::block_each, false, true, 1,
     "the block of each rank"},
    {Collective::scatter, Owner::root, Extent::block_each, Owner::all, Extent::size, false, true, 1,
     "the block for each rank"},
    {Collective::reduce_scatter, Owner::all, Extent::size, Owner::all, Extent::share, true, true, 1,
     "the whole vector of each rank, of which each receives its share"},
    {Collective::barrier, Owner::nobody, Extent::size, Owner::nobody, Extent::size, false, false, 0, ""},
};

constexpr const CollectiveKind& collective_kind(Collective id) {
  return collective_kinds[static_cast<int>(id)];
}

constexpr bool rooted(const CollectiveKind& kind) {
  return kind.sender == Owner::root || kind.receiver == Owner::root;
}

enum class Element { char_, int_, float_, double_ };
struct ElementType {
  Element id;
  const char* name;
  uint64_t bytes;
};
inline constexpr ElementType element_types[] = {{Element::char_, "char", 1},
                                                {Element::int_, "int", 4},
                                                {Element::float_, "float", 4},
                                                {Element::double_, "double", 8}};
const ElementType& element_type(const std::string& name);

enum class Reduction { sum, prod, min, max };
Reduction reduction_named(const std::string& name);

// Elements of a vector of `elements` that rank `rank` of `ranks` receives of a reduce_scatter: equal shares,
// the first ranks one more where it does not divide.
uint64_t share_of(uint64_t elements, int rank, int ranks);

// The size is that of a block, of which the largest buffer holds one for each rank.
bool moves_blocks(const CollectiveKind& kind);

// GB/s for a call of this size that takes `seconds`.
double algorithm_bandwidth(const CollectiveKind& kind, uint64_t bytes, int ranks, double seconds);
// The same times what every link must carry of it at least, which does not depend on the number of ranks.
double bus_bandwidth(const CollectiveKind& kind, uint64_t bytes, int ranks, double seconds);

// "Size is ...; algbw is ...", for --help; empty for the barrier.
std::string explain(const CollectiveKind& kind, bool bandwidths);

}  // namespace fairlead::tools
