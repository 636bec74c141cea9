// SPDX-License-Identifier: Apache-2.0
//
// Host memory for the image of buffers that lie far apart, such as host and device memory in one datatype of
// absolute addresses. Each range of addresses gets memory of its own, all at the same distance from what it
// stands for, so displacements and datatypes stay unchanged, and no memory is taken for what lies between the
// ranges, and hardly any address space.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace fairlead::mpi {

class ScatteredBuffer {
 public:
  struct Range {
    uintptr_t begin, end;
  };

  // Ranges that are nearer to each other share their memory: what lies between them costs address space only,
  // and a process may have only so many mappings.
  static constexpr uint64_t near = uint64_t{64} << 20;

  ScatteredBuffer() = default;
  // Ranges in any order; they may overlap.
  explicit ScatteredBuffer(std::vector<Range> ranges);
  ScatteredBuffer(ScatteredBuffer&& other) noexcept { *this = std::move(other); }
  ScatteredBuffer& operator=(ScatteredBuffer&& other) noexcept {
    std::swap(pieces_, other.pieces_);
    std::swap(distance_, other.distance_);
    return *this;
  }
  ~ScatteredBuffer();

  // From an address in a range to its image; 0 if there is no memory. Two buffers hardly ever have the same.
  ptrdiff_t distance() const { return distance_; }

 private:
  enum class Outcome { mapped, taken, no_memory };
  static Outcome map(uintptr_t begin, uintptr_t end);
  Outcome map_at(ptrdiff_t distance);

  std::vector<Range> pieces_;  // in order, whole pages
  ptrdiff_t distance_ = 0;
};

}  // namespace fairlead::mpi
