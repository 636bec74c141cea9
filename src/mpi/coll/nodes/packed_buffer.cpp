// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/packed_buffer.h"

#include <algorithm>

#include "device/buffer_pool.h"
#include "device/classify.h"
#include "mpi/core/interception.h"
#include "packing/move.h"

namespace fairlead::mpi {

Scratch::Scratch(int device, uint64_t bytes) : bytes_(bytes) {
  if (bytes && device >= 0) on_device_ = device::pool_allocate(device, bytes);
  if (!on_device_) in_host_ = HostBuffer(bytes);
}

Scratch::~Scratch() {
  if (on_device_) device::pool_free(on_device_);
}

PackedBuffer::PackedBuffer(void* address, MPI_Count count, MPI_Datatype datatype, MPI_Aint offset)
    : address_(at_offset(address, offset)),
      count_(count),
      datatype_(datatype),
      layout_(layout_of(count, datatype)) {
  if (layout_.contiguous || layout_.bytes == 0) return;
  const device::Allocation memory = device::classify(first_data_byte(address, layout_, offset));
  if (memory.kind == device::MemoryKind::device) {
    device_ = memory.device;
    view_ = kernel_view(address_, layout_, memory);
  }
  copy_.emplace(view_ ? device_ : -1, bytes());
}

bool PackedBuffer::load() {
  if (!copy_) return true;
  if (copy_->on_device()) return move(packed(), *view_);
  if (view_) return packing::copy_out(device_, data(), *view_, 0, bytes()) == device::Error::none;
  if (device_ < 0) return pack_host(address_, count_, datatype_, data(), layout_.bytes, layout_);
  HostBuffer bytes_of_it;
  if (!pack_from_device(address_, count_, datatype_, layout_, device_, &bytes_of_it)) return false;
  std::copy_n(bytes_of_it.data(), bytes(), reinterpret_cast<unsigned char*>(data()));
  return true;
}

bool PackedBuffer::store() const {
  if (!copy_) return true;
  if (copy_->on_device()) return move(*view_, packed());
  if (view_) return packing::copy_in(device_, *view_, 0, data(), bytes()) == device::Error::none;
  if (device_ < 0) return unpack_host(data(), layout_.bytes, address_, count_, datatype_, layout_);
  return unpack_to_device(data(), layout_.bytes, address_, count_, datatype_, layout_, device_);
}

bool PackedBuffer::move(const packing::View& to, const packing::View& from) const {
  return packing::move_now(device_, to, 0, from, 0, bytes()) == device::Error::none;
}

}  // namespace fairlead::mpi
