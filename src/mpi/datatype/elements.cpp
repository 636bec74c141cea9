// SPDX-License-Identifier: Apache-2.0

#include "mpi/datatype/elements.h"

#include <algorithm>

#include "packing/move.h"

namespace fairlead::mpi {

using device::Error;

Elements::Elements(UserBuffer buffer, Layout layout, MPI_Aint offset)
    : buffer_(buffer), layout_(std::move(layout)) {
  const device::Allocation memory =
      layout_.bytes > 0 ? buffer_.take_memory(layout_, offset) : device::Allocation();
  buffer_.address = at_offset(buffer_.address, offset);
  if (memory.kind != device::MemoryKind::device) return;
  device_ = memory.device;
  if (layout_.contiguous)
    view_.emplace(buffer_.address, bytes());
  else
    view_ = kernel_view(buffer_.address, layout_, memory);
}

bool Elements::pack(void* packed) const {
  const auto& [address, count, datatype, found] = buffer_;
  if (device_ < 0) return pack_host(address, count, datatype, packed, layout_.bytes, layout_);
  if (view_) return packing::copy_out(device_, packed, *view_, 0, bytes()) == Error::none;
  HostBuffer bytes_of_it;
  if (!pack_from_device(address, count, datatype, layout_, device_, &bytes_of_it)) return false;
  std::copy_n(bytes_of_it.data(), bytes(), static_cast<unsigned char*>(packed));
  return true;
}

bool Elements::unpack(const void* packed, MPI_Count bytes) const {
  const auto& [address, count, datatype, found] = buffer_;
  if (bytes == 0) return true;
  if (device_ < 0) return unpack_host(packed, bytes, address, count, datatype, layout_);
  if (view_) return packing::copy_in(device_, *view_, 0, packed, static_cast<uint64_t>(bytes)) == Error::none;
  return unpack_to_device(packed, bytes, address, count, datatype, layout_, device_);
}

HostElements::HostElements(const Elements& elements, bool filled)
    : elements_(elements), is_image_(elements.device() >= 0) {
  if (!is_image_) {
    address_ = elements.address();
    return;
  }
  const auto& [address, count, datatype, found] = elements.buffer();
  const Layout& layout = elements.layout();
  memory_ = HostBuffer(static_cast<size_t>(std::max<MPI_Count>(layout.span, 1)));
  packed_ = HostBuffer(elements.bytes());
  address_ = at_offset(memory_.data(), -static_cast<MPI_Aint>(layout.first));
  valid_ = memory_.data() && packed_.data() &&
           (!filled || (elements.pack(packed_.data()) &&
                        unpack_host(packed_.data(), layout.bytes, address_, count, datatype, layout)));
}

bool HostElements::write_back(MPI_Count bytes) const {
  const auto& [address, count, datatype, found] = elements_.buffer();
  const Layout& layout = elements_.layout();
  return !is_image_ || (pack_host(address_, count, datatype, packed_.data(), layout.bytes, layout) &&
                        elements_.unpack(packed_.data(), bytes));
}

}  // namespace fairlead::mpi
