// SPDX-License-Identifier: Apache-2.0
//
// An access that a benchmark repeats, its buffers at the origin, and the data by which is seen that it was
// done.

#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "bench/buffer.h"
#include "bench/options/arguments.h"

namespace fairlead::tools {

// What the buffers of a rank hold: other data for every iteration, in every rank.
struct Filling {
  uint64_t bytes;  // all that a step accesses
  int64_t iteration;
  int rank, partner;
};

class Accesses {
 public:
  virtual ~Accesses() = default;

  // Of one access: where in the target's memory it begins, and where in the origin's buffers.
  struct Spot {
    MPI_Win window;
    int target;
    MPI_Aint displacement;
    uint64_t at, bytes;
  };
  virtual void start(const Spot& spot) = 0;

  virtual void fill_origin(const Filling& filling) = 0;
  virtual void fill_window(const Filling& filling, Buffer& window) = 0;
  // Whether they hold what so many steps, one at least, make of a filling. True where that cannot be told.
  virtual bool right_at_origin(const Filling& filling, int64_t steps) = 0;
  virtual bool right_in_window(const Filling& filling, const Buffer& window, int64_t steps) = 0;

  // Brought to the target, or brought from there.
  virtual Buffer& buffer() = 0;
};

// `bytes`: all that a step accesses, at most.
std::unique_ptr<Accesses> make_accesses(const BenchArguments& arguments, Place origin, uint64_t bytes);
// What that takes of the origin's memory.
uint64_t origin_bytes(const BenchArguments& arguments, uint64_t bytes);

}  // namespace fairlead::tools
