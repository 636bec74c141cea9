// SPDX-License-Identifier: Apache-2.0
//
// The first bytes of a host buffer, in the order in which its datatype sends them, as many as a descriptor
// has. A descriptor lands there in place of a message that may be shorter: what lies behind the message is
// saved before and put back after, since a receive changes no more than the message (MPI 4.1, 3.2.4).

#pragma once

#include <utility>

#include "device/classify.h"
#include "mpi/datatype/layout.h"
#include "p2p/rts_header.h"

namespace fairlead::mpi {

// An address and what the call said of it.
struct UserBuffer {
  void* address;
  MPI_Count count;
  MPI_Datatype datatype;
  device::Found found{};  // by the front door, for this call

  // What it lies in, asked again by whoever starts anew.
  device::Allocation take_memory(const Layout& layout) {
    return device::classify(first_data_byte(address, layout), std::exchange(found, {}));
  }
};

// For buffers that hold at least p2p::rts_bytes bytes.
class FirstBytes {
 public:
  bool read(const UserBuffer& buffer) {
    if (!is_plain(buffer.datatype)) return read(buffer, layout_of(buffer.count, buffer.datatype));
    std::memcpy(bytes_, buffer.address, sizeof bytes_);
    return true;
  }
  bool read(const UserBuffer& buffer, const Layout& layout);
  // Back to where they were read.
  void write(const UserBuffer& buffer) const;
  const unsigned char* data() const { return elements_ ? packed_.data() : bytes_; }

 private:
  bool read_elements(const UserBuffer& buffer);

  unsigned char bytes_[p2p::rts_bytes];
  std::optional<datatype::View> gaps_;  // of the buffer, if there are any
  HostBuffer packed_;                   // whole elements, where only the host MPI knows the layout
  MPI_Count elements_ = 0, element_bytes_ = 0;
};

}  // namespace fairlead::mpi
