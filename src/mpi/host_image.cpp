// SPDX-License-Identifier: Apache-2.0

#include "mpi/host_image.h"

#include <algorithm>
#include <climits>

#include "base/log.h"
#include "base/statistics.h"
#include "device/classify.h"
#include "device/small_copy.h"

namespace fairlead::mpi {

using device::Error;

HostImage::HostImage(const Region& region)
    : device_memory_(region.bytes > 0 && region.on_device()), address_(region.address) {
  if (!device_memory_) return;
  MPI_Aint first = PTRDIFF_MAX, end = PTRDIFF_MIN;
  for (const Block& block : region.blocks) {
    Layout layout = layout_of(block.count, block.datatype);
    MPI_Aint begin = block.offset + static_cast<MPI_Aint>(layout.first);
    first = std::min(first, begin);
    end = std::max(end, begin + static_cast<MPI_Aint>(layout.span));
  }
  device_ = device::classify(static_cast<char*>(region.address) + first).device;
  memory_ = HostBuffer(static_cast<size_t>(end - first));
  // Not by pointer arithmetic: the first byte need not lie behind the buffer's address.
  address_ =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory_.data()) - static_cast<uintptr_t>(first));
}

char* HostImage::at(const Block& block) const {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(address_) +
                                 static_cast<uintptr_t>(block.offset));
}

// What has gaps is packed and unpacked by kernels where they can; what lies in the gaps stays where it is.
bool HostImage::load(const Region& region) {
  if (!device_memory_) return true;
  for (const Block& block : region.blocks) {
    Layout layout = layout_of(block.count, block.datatype);
    const char* buffer = static_cast<const char*>(region.address) + block.offset;
    if (layout.plan && !layout.contiguous) {
      HostBuffer packed;
      if (!pack_from_device(buffer, block.count, block.datatype, layout, device_, &packed)) return false;
      const uint64_t bytes = static_cast<uint64_t>(layout.bytes);
      datatype::move_on_host(layout.view(at(block)), 0, {packed.data(), bytes}, 0, bytes);
      continue;
    }
    const char* from = buffer + layout.first;
    if (device::copy_to_host(device_, at(block) + layout.first, from, static_cast<size_t>(layout.span)) !=
        Error::none)
      return false;
  }
  return true;
}

bool HostImage::store(const Region& region) const {
  if (!device_memory_) return true;
  for (const Block& block : region.blocks) {
    Layout layout = layout_of(block.count, block.datatype);
    char* to = static_cast<char*>(region.address) + block.offset;
    if (layout.contiguous) {
      if (device::copy_now(device_, to, at(block), static_cast<size_t>(layout.bytes)) != Error::none)
        return false;
      continue;
    }
    HostBuffer packed(static_cast<size_t>(layout.bytes));
    if (!packed.data() ||
        !pack_host(at(block), block.count, block.datatype, packed.data(), layout.bytes, layout) ||
        !unpack_to_device(packed.data(), layout.bytes, to, block.count, block.datatype, layout, device_))
      return false;
  }
  return true;
}

namespace {

bool complain_unless(bool done) {
  if (!done)
    log_line(LogLevel::error, "a device buffer of a collective cannot be copied to or from host memory: %s",
             device::runtime() ? device::runtime()->error_text() : "out of memory");
  return done;
}

}  // namespace

StagedBuffers::StagedBuffers(const Regions& regions)
    : read_(regions.read), written_(regions.written), both_empty_(regions.bytes() == 0) {}

bool StagedBuffers::valid() const {
  return complain_unless(read_.valid() && written_.valid());
}

bool StagedBuffers::load(const Regions& regions) {
  return complain_unless(read_.load(regions.read) &&
                         (!regions.written_is_read || written_.load(regions.written)));
}

bool StagedBuffers::store(const Regions& regions) const {
  if (read_.stands_for_device() || written_.stands_for_device())
    count(Traffic::collective_staged, regions.bytes());
  return complain_unless(!regions.has_result || written_.store(regions.written));
}

const void* StagedBuffers::send_argument(const CollectiveCall& call) const {
  if (call.in_place()) return MPI_IN_PLACE;
  // One address for two buffers without bytes is no overlap. MPICH 5.0 takes it for one in the nonblocking
  // calls that persistent ones are started as, and not in those.
  static const char nothing = 0;
  return both_empty_ && read_.address() == written_.address() ? &nothing : read_.address();
}

void* StagedBuffers::receive_argument(const CollectiveCall& call) const {
  if (call.recvbuf == MPI_IN_PLACE) return MPI_IN_PLACE;
  // The one buffer of MPI_Bcast is read at the root.
  bool root_of_bcast = call.function == Collective::bcast && read_.stands_for_device();
  return root_of_bcast ? read_.address() : written_.address();
}

}  // namespace fairlead::mpi
