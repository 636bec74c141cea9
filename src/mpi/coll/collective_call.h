// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a collective call, for all functions and in either count form, and what they mean for the
// calling rank: which bytes it reads and which it writes (MPI 4.1, chapters 6 and 8.6).

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "mpi/abi/host_mpi.h"
#include "mpi/check/stream_check.h"
//
#include "device/classify.h"
#include "mpi/abi/neighbors.h"
#include "mpi/coll/shape.h"

namespace fairlead::mpi {

// An array of int or of a wider type, as the caller passed it.
template <class Wide>
class Numbers {
 public:
  Numbers() = default;
  Numbers(const int* narrow) : narrow_(narrow) {}
  Numbers(const Wide* wide) : wide_(wide) {}
  Wide operator[](int index) const { return narrow_ ? narrow_[index] : wide_[index]; }
  explicit operator bool() const { return narrow_ || wide_; }
  bool same_as(const Numbers& other) const { return narrow_ == other.narrow_ && wide_ == other.wide_; }
  // The array in the caller's form, for the host MPI function of the same form.
  operator const int*() const { return narrow_; }
  operator const Wide*() const { return wide_; }
  // Replaces the array by a copy of the same numbers.
  template <class Copy>
  void move_to(const Copy& copy) {
    if (narrow_) narrow_ = copy(narrow_);
    if (wide_) wide_ = copy(wide_);
  }

 private:
  const int* narrow_ = nullptr;
  const Wide* wide_ = nullptr;
};

struct CollectiveBlock {
  MPI_Aint offset;  // from the buffer's address
  MPI_Count count;
  MPI_Datatype datatype;
  size_t index = 0;  // of its rank, or of its neighbour, if each has a block
};

// What a call says of one of its buffers.
struct CallSide {
  const void* buffer;
  Blocks blocks;
  MPI_Count count;
  Numbers<MPI_Count> counts;
  Numbers<MPI_Aint> displacements;
  MPI_Datatype datatype;
  const MPI_Datatype* datatypes;

  // The block of that rank or neighbour. Displacements count extents of the common datatype, or bytes where
  // each block has its own datatype. Without displacements, blocks of one count follow each other.
  CollectiveBlock block(int index) const;
};

// A function with one count and datatype for both buffers has them on both sides, MPI_Bcast also its buffer,
// and MPI_Reduce_scatter has its counts in `recvcounts`. Arguments that are not significant on this rank may
// have any value.
struct CollectiveCall {
  Collective function;
  MPI_Comm comm;
  const void* sendbuf = nullptr;
  void* recvbuf = nullptr;
  // The count of each rank's message where all ranks have the same; otherwise the arrays hold one count per
  // rank.
  MPI_Count sendcount = 0, recvcount = 0;
  Numbers<MPI_Count> sendcounts = {}, recvcounts = {};
  Numbers<MPI_Aint> sdispls = {}, rdispls = {};
  MPI_Datatype sendtype = MPI_DATATYPE_NULL, recvtype = MPI_DATATYPE_NULL;
  const MPI_Datatype *sendtypes = nullptr, *recvtypes = nullptr;
  MPI_Op op = MPI_OP_NULL;
  int root = 0;
  bool large = false;       // in the large-count form
  device::Found found{};    // for one of the buffers; found by the interception
  bool must_agree = false;  // the ranks agree on its memory first (between_nodes.h)
  // The same on all ranks (between_nodes.h).
  bool by_messages = false;
  uint64_t segments = 1;  // of a nonblocking call
  bool asks = false;      // a nonblocking call: the newest MemoryQuestion of its communicator

  const CollectiveShape& shape() const { return shape_of(function); }
  bool reduces() const { return shape().reduces(); }
  bool among_neighbors() const { return shape().among_neighbors; }
  // All neighbours get the same block, rather than one block each.
  bool gathers_from_neighbors() const { return among_neighbors() && shape().sent == Blocks::one; }
  // What this rank gives lies in the receive buffer.
  bool in_place() const {
    return sendbuf == MPI_IN_PLACE &&
           (shape().in_place == InPlace::own || shape().in_place == InPlace::input);
  }
  CallSide sent() const {
    return {sendbuf, shape().sent, sendcount, sendcounts, sdispls, sendtype, sendtypes};
  }
  CallSide received() const {
    return {recvbuf, shape().received, recvcount, recvcounts, rdispls, recvtype, recvtypes};
  }
};

// The part of a buffer of the call that this rank uses.
struct Region {
  void* address = nullptr;
  std::vector<CollectiveBlock> blocks;
  MPI_Count bytes = 0;
  // The error class of the first invalid block.
  int error = MPI_SUCCESS;
  // The derived datatypes of blocks without bytes: the host MPI still looks at them.
  std::vector<MPI_Datatype> types_of_nothing;

  void add(const CollectiveBlock& block);
  void check(MPI_Count count, MPI_Datatype datatype);
  bool on_device() const { return device() >= 0; }
  // The device of the first block that lies on a device; -1 if none does. Looked up only once.
  int device() const;
  const device::Found& found() const { return found_; }
  void set_found(const device::Found& found) { found_ = found; }

 private:
  int find_device() const;
  static constexpr int unknown = -2;
  mutable int device_ = unknown;
  mutable device::Found found_;  // for the block that was classified last
};

struct Regions {
  Region read, written;
  // The written region also holds input: MPI_IN_PLACE.
  bool written_is_read = false;
  // False on rank 0 in MPI_Exscan, whose receive buffer does not change.
  bool has_result = true;
  int reduction_error = MPI_SUCCESS;
  // What this rank sends to itself lies where it is received, without MPI_IN_PLACE.
  bool aliased = false;

  // The error class that the host MPI gives the arguments, as far as they are significant on this rank.
  int error() const {
    return reduction_error != MPI_SUCCESS ? reduction_error
           : read.error != MPI_SUCCESS    ? read.error
                                          : written.error;
  }

  bool on_device() const { return read.on_device() || written.on_device(); }
  // A rank without bytes passes any kind of memory.
  bool hold_no_host_memory() const { return bytes() == 0 || on_device(); }
  uint64_t bytes() const { return static_cast<uint64_t>(read.bytes + written.bytes); }
};

// FAIRLEAD_CHECK=streams, for all blocks of both.
void check_streams(const Regions& regions, device::program::OpenBuffers* buffers = nullptr);

// The datatypes of all blocks, with repetitions, including blocks without elements.
std::vector<MPI_Datatype> types_in(const Regions& regions);

// For error messages: "a collective of 4096 bytes on this rank".
std::string description(const Regions& regions);

// This rank's position in a communicator.
struct CommPosition {
  int rank = 0, size = 1;
  bool inter = false;
  int remote_size = 0;
  bool topology = false;  // it has a process topology
  Neighbors neighbors;
};
CommPosition position_in(MPI_Comm comm);

// Is this rank among those ranks of the call?
inline bool is_among(Who who, const CollectiveCall& call, const CommPosition& position) {
  const bool root = call.root == (position.inter ? MPI_ROOT : position.rank);
  return is_among(who, root, !position.inter || (!root && call.root != MPI_PROC_NULL));
}
// Does it give, or get, anything? Then the arguments of that side are significant.
inline bool gives(const CollectiveCall& call, const CommPosition& position) {
  return is_among(call.shape().gives, call, position);
}
inline bool gets(const CollectiveCall& call, const CommPosition& position) {
  return is_among(call.shape().gets, call, position);
}
// Only rank 0 of MPI_Exscan has no result.
inline bool has_result(const CollectiveCall& call, const CommPosition& position) {
  return call.shape().reduction != Reduces::before_own || position.rank > 0;
}

// The elements of the arrays on either side of the call that are significant on this rank.
struct ArrayLengths {
  size_t sent, received;
};
ArrayLengths array_lengths(const CollectiveCall& call, const CommPosition& position);

Regions regions_of(const CollectiveCall& call, const CommPosition& position);

// MPI_Reduce_scatter with equal counts, which all ranks know, as MPI_Reduce_scatter_block.
CollectiveCall in_blocks(CollectiveCall call, const CommPosition& position);

// Copies of the arrays of counts, displacements and types of a collective that is not over when its call
// returns. The standard forbids programs to change or free them meanwhile (MPI 4.1, 6.12). But host MPIs read
// them only during the call, and programs rely on that: mpi4py frees them.
class KeptArrays {
 public:
  // Copies the arrays and makes the call point to the copies.
  void keep(CollectiveCall* call, const CommPosition& position);

 private:
  template <class Element>
  const Element* copy(const Element* elements, size_t many);

  std::vector<std::unique_ptr<std::byte[]>> copies_;
};

}  // namespace fairlead::mpi
