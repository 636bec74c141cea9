// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/packed_buffer.h"

#include "device/buffer_pool.h"
#include "mpi/datatype/type_origin.h"
#include "packing/move.h"

namespace fairlead::mpi {

Scratch::Scratch(int device, uint64_t bytes) : bytes_(bytes) {
  if (bytes && device >= 0) on_device_ = device::pool_allocate(device, bytes);
  if (!on_device_) in_host_ = HostBuffer(bytes);
}

Scratch::~Scratch() {
  if (on_device_) device::pool_free(on_device_);
}

uint64_t reduced_element_bytes(MPI_Datatype datatype) {
  if (const int size = plain_size(datatype)) return static_cast<uint64_t>(size);
  if (combiner_of(datatype) == MPI_COMBINER_NAMED) return static_cast<uint64_t>(extent_of(datatype));
  const Layout layout = layout_of(1, datatype);
  return layout.contiguous ? static_cast<uint64_t>(layout.bytes) : 0;
}

PackedBuffer::PackedBuffer(void* address, MPI_Count count, MPI_Datatype datatype, MPI_Aint offset,
                           Padding padding)
    : address_(at_offset(address, offset)), padding_(padding) {
  const Layout layout = layout_of(count, datatype);
  if (layout.contiguous || layout.bytes == 0) return;
  elements_.emplace(UserBuffer{address, count, datatype}, layout, offset);
  copy_.emplace(elements_->view() ? elements_->device() : -1,
                padding == Padding::kept
                    ? static_cast<uint64_t>(count) * static_cast<uint64_t>(extent_of(datatype))
                    : elements_->bytes());
}

packing::View PackedBuffer::in_copy() const {
  if (padding_ == Padding::kept) return elements_->layout().view(copy_->data());
  return {copy_->data(), elements_->bytes()};
}

bool PackedBuffer::load() {
  if (!copy_) return true;
  if (copy_->on_device()) return move(in_copy(), *elements_->view());
  if (padding_ == Padding::removed) return elements_->pack(data());
  const auto& [address, count, datatype, found] = elements_->buffer();
  const Layout& layout = elements_->layout();
  HostBuffer packed(elements_->bytes());
  return packed.data() && elements_->pack(packed.data()) &&
         unpack_host(packed.data(), layout.bytes, data(), count, datatype, layout);
}

bool PackedBuffer::store() const {
  if (!copy_) return true;
  if (copy_->on_device()) return move(*elements_->view(), in_copy());
  const auto& [address, count, datatype, found] = elements_->buffer();
  const Layout& layout = elements_->layout();
  if (padding_ == Padding::removed) return elements_->unpack(data(), layout.bytes);
  HostBuffer packed(elements_->bytes());
  return packed.data() && pack_host(data(), count, datatype, packed.data(), layout.bytes, layout) &&
         elements_->unpack(packed.data(), layout.bytes);
}

bool PackedBuffer::move(const packing::View& to, const packing::View& from) const {
  return packing::move_now(elements_->device(), to, 0, from, 0, elements_->bytes()) == device::Error::none;
}

}  // namespace fairlead::mpi
