// SPDX-License-Identifier: Apache-2.0
//
// The window of a benchmark: as much memory in each rank, and a page at least, made one way or another.

#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/buffer.h"
#include "bench/options/arguments.h"

namespace fairlead::tools {

class OwnedWindow {
 public:
  // Of the arguments' kind and placement. Collective over `members`. Throws a cannot_run Failure where the
  // MPI has no such window.
  OwnedWindow(const BenchArguments& arguments, uint64_t bytes, MPI_Comm members);
  // Collective.
  ~OwnedWindow();
  OwnedWindow(const OwnedWindow&) = delete;
  OwnedWindow& operator=(const OwnedWindow&) = delete;

  MPI_Win get() const { return window_; }
  Buffer& memory() { return *memory_; }
  // Where a byte of a rank's memory lies, for accesses.
  MPI_Aint displacement(int rank, uint64_t byte) const {
    return starts_[static_cast<size_t>(rank)] + static_cast<MPI_Aint>(byte);
  }

 private:
  void allocate(MPI_Aint bytes, MPI_Comm members);
  void attach(MPI_Aint bytes, MPI_Comm members);
  void require(int code, const char* call) const;

  const BenchArguments& arguments_;
  Place place_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::optional<Buffer> memory_;
  std::vector<MPI_Aint> starts_;
};

}  // namespace fairlead::tools
