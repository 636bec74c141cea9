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
  reduce_scatter_block,
  scan,
  exscan,
  alltoallw,
  gatherv,
  scatterv,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
  barrier,
  exchange  // of messages, by two ranks: no collective of MPI
};

// Who has the buffer of one side of a collective.
enum class Owner { nobody, all, root, others };
// How much of it: the size, a block of the size for each rank, a rank's share of the size, or a block for
// each of the two neighbours in a ring of all ranks.
enum class Extent { size, block_each, share, neighbors };
// Which ranks' vectors a reduction combines.
enum class Reduced { of_all, through_rank, before_rank };

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
  Reduced reduced = Reduced::of_all;
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
    {Collective::reduce_scatter_block, Owner::all, Extent::block_each, Owner::all, Extent::size, true, false,
     1, "the block that each rank receives, of a vector of one for each"},
    {Collective::scan, Owner::all, Extent::size, Owner::all, Extent::size, true, false, 0,
     "the vector of each rank", Reduced::through_rank},
    {Collective::exscan, Owner::all, Extent::size, Owner::all, Extent::size, true, false, 0,
     "the vector of each rank", Reduced::before_rank},
    {Collective::alltoallw, Owner::all, Extent::block_each, Owner::all, Extent::block_each, false, false, 1,
     "the block from each rank to each, all alike"},
    {Collective::gatherv, Owner::all, Extent::size, Owner::root, Extent::block_each, false, false, 1,
     "the block of each rank, all alike"},
    {Collective::scatterv, Owner::root, Extent::block_each, Owner::all, Extent::size, false, false, 1,
     "the block for each rank, all alike"},
    {Collective::neighbor_allgather, Owner::all, Extent::size, Owner::all, Extent::neighbors, false, false, 0,
     "the block of each rank, for both neighbours in a ring"},
    {Collective::neighbor_allgatherv, Owner::all, Extent::size, Owner::all, Extent::neighbors, false, false,
     0, "the block of each rank, for both neighbours in a ring"},
    {Collective::neighbor_alltoall, Owner::all, Extent::neighbors, Owner::all, Extent::neighbors, false,
     false, 0, "the block for each of the two neighbours in a ring"},
    {Collective::neighbor_alltoallv, Owner::all, Extent::neighbors, Owner::all, Extent::neighbors, false,
     false, 0, "the block for each of the two neighbours in a ring"},
    {Collective::neighbor_alltoallw, Owner::all, Extent::neighbors, Owner::all, Extent::neighbors, false,
     false, 0, "the block for each of the two neighbours in a ring"},
    {Collective::barrier, Owner::nobody, Extent::size, Owner::nobody, Extent::size, false, false, 0, ""},
    {Collective::exchange, Owner::all, Extent::size, Owner::all, Extent::size, false, false, 0,
     "the message from each rank to the other"},
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

// The size is that of a block, of which the largest buffer holds so many; 1 where it is that of a vector.
int blocks_of(const CollectiveKind& kind, int ranks);
// Ranks exchange with their neighbours in a ring.
constexpr bool among_neighbors(const CollectiveKind& kind) {
  return kind.received == Extent::neighbors;
}

// GB/s for a call of this size that takes `seconds`.
double algorithm_bandwidth(const CollectiveKind& kind, uint64_t bytes, int ranks, double seconds);
// The same times what every link must carry of it at least, which does not depend on the number of ranks.
double bus_bandwidth(const CollectiveKind& kind, uint64_t bytes, int ranks, double seconds);

// "Size is ...; algbw is ...", for --help; empty for the barrier.
std::string explain(const CollectiveKind& kind, bool bandwidths);

}  // namespace fairlead::tools
