// SPDX-License-Identifier: Apache-2.0
//
// One collective operation, made, called in any form and checked. A Plan says what happens and is the same on
// every rank; a Collective is this rank's part of it: buffers in their places, arguments, and the bytes that
// must be there afterwards, which follow from the plan alone, without MPI.
//
// What an operation must not read is garbage: arguments that are significant elsewhere only, and those that
// MPI_IN_PLACE replaces. What it must not write holds guard bytes: gaps between blocks, gaps in datatypes,
// the space around buffers. Buffers that are only read must hold the same afterwards.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/harness.h"

namespace ranks::coll {

enum class Kind {
  barrier,
  bcast,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce,
  allreduce,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
};
inline constexpr int kind_count = 22;
bool is_rooted(Kind kind);
bool is_reduction(Kind kind);
bool is_neighborhood(Kind kind);
// The parts of Reduce_scatter would have to add up to the same in both groups; they are left out.
bool allows_intercommunicators(Kind kind);

enum class Form { blocking, nonblocking, persistent, large, large_nonblocking, large_persistent };
inline constexpr int form_count = 6;
// Allowed, and right in the MPIs at hand.
bool may_be_in_place(Kind kind, Form form = Form::blocking);
// Does the MPI have the function?
bool exists(Kind kind, Form form);
const char* function_name(Kind kind, Form form);

// Where the buffers of each rank lie.
enum class Places {
  device,
  host,
  root_is_host,
  root_is_device,  // and the others are host
  odd_ranks_are_host,
  sends_are_host,     // and receives are device, on every rank
  receives_are_host,  // and sends are device
  devices_differ,     // sends are memory that one device alone can access, and receives another's
  any,                // any kind of memory on each rank
};
inline constexpr int places_count = 9;

// What datatypes movements use. Reductions take one of several predefined types and operations.
enum class Types {
  bytes,
  integers,
  derived,  // of three integers each: contiguous, strided, resized, struct, in another order; may differ per
            // rank
};
inline constexpr int types_count = 3;
// None, few or many elements; fewer of derived types, whose blocks are written to a device one by one.
int some_count(Types types, uint64_t dice);

// A communicator as its collectives see it. Of an intercommunicator, each group is a side, 0 or 1.
struct Team {
  explicit Team(MPI_Comm comm, int side = 0);

  MPI_Comm comm;
  int side;
  int position = 0;  // this rank in its own group
  int local = 0;     // ranks of the own group
  int far = 0;       // of the other group; of an intracommunicator, the same
  bool inter = false;
  bool has_neighbors = false;
  // MPI_PROC_NULL among them. A rank may be a neighbour several times; what tells such messages apart is the
  // same at both ends.
  struct Neighbor {
    int rank;
    int message = 0;
  };
  std::vector<Neighbor> sources, destinations;
};

struct Plan {
  Kind kind = Kind::barrier;
  int root = 0;
  int root_side = 0;
  int count = 0;  // items of a block; the v- and w-functions have irregular counts of about that
  bool in_place = false;
  Places places = Places::device;
  Types types = Types::bytes;
  uint64_t key = 0;  // all else that may vary follows from it
};
std::string describe(const Plan& plan);

// A datatype, and where the bytes of an item lie.
struct Layout {
  struct Piece {
    size_t offset, bytes;
  };
  MPI_Datatype type;
  size_t bytes, extent;
  std::vector<Piece> pieces;  // in the order of the type map
};

// Consecutive items of a buffer.
struct Block {
  int source;       // whose data they are
  int sources = 1;  // more than one: the reduction of consecutive ranks' data
  int destination;  // what moves between two ranks is theirs only; else `everyone`
  int first_item;   // of all that `source` contributes; not 0 in reductions only
  int count;
  const Layout* layout;
  size_t offset;    // bytes into the buffer
  int message = 0;  // of several between two neighbours
};

class Collective {
 public:
  Collective(const Team& team, const Plan& plan);

  // Writes the contributions of a round, and guard bytes where results will be.
  void prepare(uint64_t round = 0);
  // The call of that form. Of the forms that give no request, `request` is ignored.
  bool call(Form form, MPI_Request* request = nullptr);
  // To be called after completion.
  void check() const;

  const Plan& plan() const { return plan_; }

 private:
  // Arguments of one direction.
  struct Side {
    Memory memory;
    void* address = nullptr;
    size_t bytes = 0;
    bool used = false;
    std::vector<Block> before, after;
    size_t undefined_from = SIZE_MAX;  // what the standard leaves open
    // As arguments; of functions that take one count, the first is it.
    std::vector<int> counts, offsets;
    std::vector<MPI_Count> large_counts;
    std::vector<MPI_Aint> large_offsets;
    std::vector<MPI_Datatype> types;
  };

  void lay_out_movement();
  void lay_out_reduction();
  void lay_out_neighborhood();
  bool has_parts() const;
  int items(int source, int destination, int message = 0) const;
  const Layout& layout(bool sending, int peer) const;
  Block send_block(int peer, int destination, int message = 0) const;
  Block receive_block(int peer, int destination, int message = 0) const;
  std::vector<Block> spread(std::vector<Block> blocks) const;
  void finish(Side& side, const std::vector<Block>& blocks, bool sending);
  Place place(bool sending) const;
  std::vector<char> image(const Side& side, const std::vector<Block>& blocks) const;
  template <class Count, class Offset>
  int perform(Form form, MPI_Request* request);

  const Team& team_;
  Plan plan_;
  int me_ = 0;  // identities: ranks of both sides
  int far_ = 0;
  bool root_ = false;
  bool idle_ = false;  // the root's group, of an intercommunicator
  uint64_t round_ = 0;
  Side out_, in_;
};

// All of it.
void run(const Team& team, const Plan& plan, Form form = Form::blocking);

}  // namespace ranks::coll
