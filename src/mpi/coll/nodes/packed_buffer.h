// SPDX-License-Identifier: Apache-2.0
//
// The memory that collectives over several nodes work on: scratch memory, and buffers of the call without
// gaps.

#pragma once

#include <optional>

#include "mpi/datatype/elements.h"

namespace fairlead::mpi {

// Device memory if some is available, else host memory; collectives within a node accept either.
class Scratch {
 public:
  Scratch(int device, uint64_t bytes);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  bool valid() const { return bytes_ == 0 || data(); }
  bool on_device() const { return on_device_ != nullptr; }
  void* data() const { return on_device_ ? on_device_ : in_host_.data(); }

 private:
  uint64_t bytes_;
  void* on_device_ = nullptr;
  HostBuffer in_host_;
};

// The bytes from one element of a reduction to the next: pairs such as MPI_DOUBLE_INT have padding, which
// kernels and the host MPI expect. 0 for a derived type with gaps.
uint64_t reduced_element_bytes(MPI_Datatype datatype);

// The padding of pairs in a packed copy. Reductions need it.
enum class Padding { removed, kept };

// A buffer of the call as contiguous memory: the buffer itself or a packed copy, because other ranks may pass
// the same bytes in another layout, and padding belongs to the program. Kernels pack device memory, into
// memory of the same device while some is available.
class PackedBuffer {
 public:
  // `offset` is that of a block in the buffer.
  PackedBuffer(void* address, MPI_Count count, MPI_Datatype datatype, MPI_Aint offset = 0,
               Padding padding = Padding::removed);
  bool valid() const { return !copy_ || copy_->data(); }
  char* data() const { return static_cast<char*>(copy_ ? copy_->data() : address_); }
  // Fills the copy, or stores it in the buffer. False if that fails.
  bool load();
  bool store() const;

 private:
  packing::View in_copy() const;
  bool move(const packing::View& to, const packing::View& from) const;

  void* address_;
  Padding padding_;
  // If there are gaps.
  std::optional<Elements> elements_;
  std::optional<Scratch> copy_;
};

}  // namespace fairlead::mpi
