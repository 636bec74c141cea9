// SPDX-License-Identifier: Apache-2.0
//
// The memory that this process has attached to a dynamic window. Accesses refer to it by address, and one
// access may touch several regions, of host memory and of devices. The engine's lock guards it.

#pragma once

#include <cstdint>
#include <map>

#include "rma/transfer.h"

namespace fairlead::mpi {

class AttachedRegions {
 public:
  void attach(const void* base, uint64_t size);
  void detach(const void* base);
  // Checks that the given bytes of `buffer`, whose layout consists of addresses, are all attached. If so,
  // sets the device that can access them and whether kernels can. The whole access lies between `low` and
  // `high`.
  bool locate(rma::Buffer* buffer, uint64_t at, uint64_t bytes, int64_t low, int64_t high) const;

 private:
  struct Region {
    uint64_t size, id;  // the id that the driver gives the memory
  };
  using Entry = std::map<uint64_t, Region>::const_iterator;
  // The region that contains all of [low, high), or the end.
  Entry find(uint64_t low, uint64_t high) const;

  std::map<uint64_t, Region> regions_;  // by base address
};

}  // namespace fairlead::mpi
