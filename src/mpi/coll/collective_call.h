// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a collective call, whichever it is and in either count form, and what they mean for the
// rank that calls: which bytes it reads and which it writes (MPI 4.1, chapters 6 and 8.6).

#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "mpi/abi/host_mpi.h"
//
#include "device/classify.h"
#include "mpi/abi/neighbors.h"

namespace fairlead::mpi {

enum class Collective {
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
  reduce_scatter_block,
  reduce_scatter,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
};

// An array of int or of a wider type, as the caller gave it.
template <class Wide>
class Numbers {
 public:
  Numbers() = default;
  Numbers(const int* narrow) : narrow_(narrow) {}
  Numbers(const Wide* wide) : wide_(wide) {}
  Wide operator[](int index) const { return narrow_ ? narrow_[index] : wide_[index]; }
  explicit operator bool() const { return narrow_ || wide_; }
  // As a function of the host MPI takes it that has the caller's form.
  template <class Number>
  const Number* as() const {
    if constexpr (std::is_same_v<Number, int>)
      return narrow_;
    else
      return wide_;
  }
  // The same numbers in another place.
  template <class Copy>
  void move_to(const Copy& copy) {
    if (narrow_) narrow_ = copy(narrow_);
    if (wide_) wide_ = copy(wide_);
  }

 private:
  const int* narrow_ = nullptr;
  const Wide* wide_ = nullptr;
};

struct CollectiveCall {
  Collective function;
  MPI_Comm comm;
  const void* sendbuf = nullptr;
  void* recvbuf = nullptr;
  // Of a rank's message where all have the same, else of each in the arrays.
  MPI_Count sendcount = 0, recvcount = 0;
  Numbers<MPI_Count> sendcounts = {}, recvcounts = {};
  Numbers<MPI_Aint> sdispls = {}, rdispls = {};
  MPI_Datatype sendtype = MPI_DATATYPE_NULL, recvtype = MPI_DATATYPE_NULL;
  const MPI_Datatype *sendtypes = nullptr, *recvtypes = nullptr;
  MPI_Op op = MPI_OP_NULL;
  int root = 0;
  device::Found found{};  // of one of the buffers, by the front door

  // What a rank gives to or takes from itself, its communicator or its neighbours.
  bool reduces() const { return function >= Collective::reduce && function <= Collective::exscan; }
  bool in_place() const { return sendbuf == MPI_IN_PLACE; }
  bool among_neighbors() const { return function >= Collective::neighbor_allgather; }
  // One block goes to all neighbours, not one to each.
  bool gathers_from_neighbors() const {
    return function == Collective::neighbor_allgather || function == Collective::neighbor_allgatherv;
  }
};

struct Block {
  MPI_Aint offset;  // from the buffer's address
  MPI_Count count;
  MPI_Datatype datatype;
};

// A buffer of the call, as far as this rank uses it.
struct Region {
  void* address = nullptr;
  std::vector<Block> blocks;
  MPI_Count bytes = 0;
  // The class of error of the first wrong block.
  int error = MPI_SUCCESS;
  // Derived ones of blocks without bytes: the host MPI looks at them all the same.
  std::vector<MPI_Datatype> types_of_nothing;

  void add(MPI_Aint offset, MPI_Count count, MPI_Datatype datatype);
  void check(MPI_Count count, MPI_Datatype datatype);
  bool on_device() const { return device() >= 0; }
  // Of its first block that lies on one; -1 where none does. Asked once.
  int device() const;
  const device::Found& found() const { return found_; }
  void set_found(const device::Found& found) { found_ = found; }

 private:
  int find_device() const;
  static constexpr int unknown = -2;
  mutable int device_ = unknown;
  mutable device::Found found_;  // of the block that was asked about last
};

struct Regions {
  Region read, written;
  // The written region holds input, too: MPI_IN_PLACE.
  bool written_is_read = false;
  // False at the first rank of MPI_Exscan, whose buffer stays as it is.
  bool has_result = true;
  int reduction_error = MPI_SUCCESS;

  // The class of error that the host MPI has for the arguments, as far as they mean anything on this rank.
  int error() const {
    return reduction_error != MPI_SUCCESS ? reduction_error
           : read.error != MPI_SUCCESS    ? read.error
                                          : written.error;
  }

  bool on_device() const { return read.on_device() || written.on_device(); }
  uint64_t bytes() const { return static_cast<uint64_t>(read.bytes + written.bytes); }
};

// The datatypes of their blocks, with repetitions; also of blocks without elements.
std::vector<MPI_Datatype> types_in(const Regions& regions);

// For errors: "a collective of 4096 bytes on this rank".
std::string in_words(const Regions& regions);

// This rank's place in a communicator.
struct CommPosition {
  int rank = 0, size = 1;
  bool inter = false;
  int remote_size = 0;
  bool topology = false;  // of neighbours
  Neighbors neighbors;
};
CommPosition place_in(MPI_Comm comm);

Regions regions_of(const CollectiveCall& call, const CommPosition& position);

}  // namespace fairlead::mpi
