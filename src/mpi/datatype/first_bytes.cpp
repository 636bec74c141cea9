// SPDX-License-Identifier: Apache-2.0

#include "mpi/datatype/first_bytes.h"

namespace fairlead::mpi {

bool FirstBytes::read(const UserBuffer& buffer, const Layout& layout) {
  gaps_.reset();
  elements_ = 0;
  if (layout.contiguous) {
    std::memcpy(bytes_, buffer.address, sizeof bytes_);
    return true;
  }
  if (!layout.plan) return read_elements(buffer);
  gaps_ = layout.view(buffer.address);
  packing::move_on_host({bytes_, sizeof bytes_}, 0, *gaps_, 0, sizeof bytes_);
  return true;
}

bool FirstBytes::read_elements(const UserBuffer& buffer) {
  constexpr MPI_Count wanted = p2p::rts_bytes;
  element_bytes_ = packed_bytes(1, buffer.datatype);
  elements_ = (wanted + element_bytes_ - 1) / element_bytes_;
  MPI_Count bytes = elements_ * element_bytes_;
  packed_ = HostBuffer(static_cast<size_t>(bytes));
  return packed_.data() && pack_host(buffer.address, elements_, buffer.datatype, packed_.data(), bytes);
}

void FirstBytes::write(const UserBuffer& buffer) const {
  if (elements_)
    unpack_host(packed_.data(), elements_ * element_bytes_, buffer.address, elements_, buffer.datatype);
  else if (gaps_)
    packing::move_on_host(*gaps_, 0, {const_cast<unsigned char*>(bytes_), sizeof bytes_}, 0, sizeof bytes_);
  else
    std::memcpy(buffer.address, bytes_, sizeof bytes_);
}

}  // namespace fairlead::mpi
