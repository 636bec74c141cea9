// SPDX-License-Identifier: Apache-2.0
//
// The memory that is attached to a dynamic window here. Accesses name it by addresses; one access may touch
// several regions, of host memory and of devices. Guarded by the engine's lock.

#pragma once

#include <cstdint>
#include <map>

#include "rma/transfer.h"

namespace fairlead::mpi {

class AttachedRegions {
 public:
  void attach(const void* base, uint64_t size);
  void detach(const void* base);
  // Are these bytes of `buffer`, whose layout is of addresses, all attached? Says then which device reaches
  // them, and whether kernels do. The whole access lies between `low` and `high`.
  bool locate(rma::Buffer* buffer, uint64_t at, uint64_t bytes, int64_t low, int64_t high) const;

 private:
  struct Region {
    uint64_t size, id;  // the driver's, of its memory
  };
  using Entry = std::map<uint64_t, Region>::const_iterator;
  // The region that holds all of these, or the end.
  Entry find(uint64_t low, uint64_t high) const;

  std::map<uint64_t, Region> regions_;  // by base
};

}  // namespace fairlead::mpi
