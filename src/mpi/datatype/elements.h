// SPDX-License-Identifier: Apache-2.0
//
// A buffer of elements, in host or device memory, and its bytes in the order in which its datatype sends
// them; or the same elements in host memory, for a call that only the host MPI can carry out.

#pragma once

#include <optional>

#include "mpi/datatype/first_bytes.h"

namespace fairlead::mpi {

class Elements {
 public:
  explicit Elements(UserBuffer buffer) : Elements(buffer, layout_of(buffer.count, buffer.datatype)) {}
  // With another order of their bytes, or the elements of a block at this offset of the buffer.
  Elements(UserBuffer buffer, Layout layout, MPI_Aint offset = 0);

  const UserBuffer& buffer() const { return buffer_; }
  void* address() const { return buffer_.address; }
  const Layout& layout() const { return layout_; }
  uint64_t bytes() const { return static_cast<uint64_t>(layout_.bytes); }
  int device() const { return device_; }  // -1: host memory, or no bytes
  // Set for device memory that kernels or copies can move.
  const std::optional<packing::View>& view() const { return view_; }

  // To and from host memory; unpacks the first `bytes` bytes and writes no others. False if that fails.
  bool pack(void* packed) const;
  bool unpack(const void* packed, MPI_Count bytes) const;

 private:
  UserBuffer buffer_;
  Layout layout_;
  int device_ = -1;
  std::optional<packing::View> view_;
};

// The elements themselves if they are in host memory, otherwise an image of them there.
class HostElements {
 public:
  // `filled`: the image holds the values of the elements. They outlive this object.
  HostElements(const Elements& elements, bool filled);

  // False: there is no memory for the image, or the elements cannot be read.
  bool valid() const { return valid_; }
  void* address() const { return address_; }
  // Stores the first `bytes` bytes of the image in the elements. False if that fails.
  bool write_back(MPI_Count bytes) const;

 private:
  const Elements& elements_;
  bool is_image_, valid_ = true;
  HostBuffer memory_, packed_;
  void* address_ = nullptr;
};

}  // namespace fairlead::mpi
