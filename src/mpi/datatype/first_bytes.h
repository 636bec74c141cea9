// SPDX-License-Identifier: Apache-2.0
//
// The first bytes of a host buffer, in the order in which its datatype sends them, as many as an RTS header
// has. An RTS header may be received into the buffer in place of a message that is shorter. Fairlead saves
// what lies behind the message before the receive and restores it after, since a receive changes only the
// bytes of the message (MPI 4.1, 3.2.4).

#pragma once

#include <utility>

#include "device/classify.h"
#include "mpi/datatype/layout.h"
#include "p2p/rts_header.h"

namespace fairlead::mpi {

// A buffer as the call describes it.
struct UserBuffer {
  void* address;
  MPI_Count count;
  MPI_Datatype datatype;
  device::Found found{};  // set by interception, for this call

  // Returns the allocation that contains the buffer, or its block at this offset. Uses up `found`: a later
  // start classifies the address anew.
  device::Allocation take_memory(const Layout& layout, MPI_Aint offset = 0) {
    return device::classify(first_data_byte(address, layout, offset), std::exchange(found, {}));
  }
};

// For buffers of at least p2p::rts_bytes bytes.
class FirstBytes {
 public:
  bool read(const UserBuffer& buffer) {
    if (!is_plain(buffer.datatype)) return read(buffer, layout_of(buffer.count, buffer.datatype));
    std::memcpy(bytes_, buffer.address, sizeof bytes_);
    return true;
  }
  bool read(const UserBuffer& buffer, const Layout& layout);
  // Writes the bytes back to where they were read.
  void write(const UserBuffer& buffer) const;
  const unsigned char* data() const { return elements_ ? packed_.data() : bytes_; }

 private:
  bool read_elements(const UserBuffer& buffer);

  unsigned char bytes_[p2p::rts_bytes];
  std::optional<packing::View> gaps_;  // of the buffer, if it has gaps
  HostBuffer packed_;                  // whole elements, if only the host MPI can read the layout
  MPI_Count elements_ = 0, element_bytes_ = 0;
};

}  // namespace fairlead::mpi
