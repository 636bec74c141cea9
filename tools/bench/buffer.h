// SPDX-License-Identifier: Apache-2.0
//
// A message buffer in any kind of memory, and the data a benchmark sends: a sequence of 64-bit words that
// follows from a seed, so that the receiver knows what must arrive and every message differs from the last.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fairlead::tools {

enum class Place { device, managed, pinned, aligned, plain };

Place place_of(char letter);  // D, M, H as in the benchmarks' arguments
std::string describe(Place place);

// Empty when `bytes` more fit, in each of `sharers` processes; else what is short.
std::string shortage(Place place, uint64_t bytes, int sharers);

// Every operation returns when it is done, and throws a Failure (exit_cannot_run) where the GPU refuses it.
class Buffer {
 public:
  Buffer(Place place, size_t bytes);
  // Memory of others, of that kind.
  struct Lent {
    void* address;
  };
  Buffer(Place place, Lent memory) : place_(place), owned_(false), address_(memory.address) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* address() const { return address_; }

  // From `offset` on.
  void write(size_t offset, const void* data, size_t bytes);
  void read(size_t offset, void* data, size_t bytes) const;
  void write_pattern(size_t offset, size_t bytes, uint64_t seed);
  void clear(size_t offset, size_t bytes);
  bool holds(size_t offset, const void* data, size_t bytes) const;
  bool holds_pattern(size_t offset, size_t bytes, uint64_t seed) const {
    return !first_wrong(offset, bytes, seed);
  }
  // Where in the buffer the pattern is broken first.
  std::optional<size_t> first_wrong(size_t offset, size_t bytes, uint64_t seed) const;

 private:
  Place place_;
  bool owned_ = true;
  void* address_ = nullptr;
};

}  // namespace fairlead::tools
