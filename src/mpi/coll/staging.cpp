// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/staging.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/log.h"
#include "device/classify.h"
#include "device/copies/small_copy.h"
#include "mpi/abi/comm_self.h"
#include "observe/statistics.h"

namespace fairlead::mpi {

using device::Error;

namespace {

// Images of longer buffers, and of those for which there is no memory, leave out what lies between their
// parts.
constexpr uint64_t longest_whole = uint64_t{64} << 30;
constexpr uint64_t near = ScatteredBuffer::near;

using Ranges = std::vector<ScatteredBuffer::Range>;

// Keeps few ranges, since blocks often alternate between arrays.
void add(Ranges& ranges, const void* address, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address), end = begin + bytes;
  const auto found = std::ranges::find_if(
      ranges, [&](const auto& range) { return begin <= range.end + near && range.begin <= end + near; });
  if (found == ranges.end())
    ranges.push_back({begin, end});
  else
    *found = {std::min(found->begin, begin), std::max(found->end, end)};
}

// Where the bytes of the region lie.
Ranges ranges_of(const Region& region) {
  Ranges ranges;
  for (const CollectiveBlock& block : region.blocks) {
    const Layout layout = layout_of(block.count, block.datatype);
    void* const buffer = at_offset(region.address, block.offset);
    if (!layout.plan || layout.contiguous) {
      add(ranges, at_offset(buffer, layout.first), static_cast<uint64_t>(layout.span));
      continue;
    }
    const packing::View view = layout.view(buffer);
    for (uint64_t at = 0; at < view.bytes();) {
      const packing::View::Rows rows = view.rows_at(at);
      const bool apart = rows.pitch > near;
      for (uint64_t row = 0; row < (apart ? rows.rows : 1); ++row)
        add(ranges, at_offset(view.address(), rows.offset + static_cast<int64_t>(row * rows.pitch)),
            apart ? rows.width : (rows.rows - 1) * rows.pitch + rows.width);
      at += rows.width * rows.rows;
    }
  }
  return ranges;
}

}  // namespace

HostImage::HostImage(const Region& region)
    : device_memory_(region.bytes > 0 && region.on_device()), address_(region.address) {
  if (!device_memory_) return;
  MPI_Aint first = PTRDIFF_MAX, end = PTRDIFF_MIN;
  for (const CollectiveBlock& block : region.blocks) {
    Layout layout = layout_of(block.count, block.datatype);
    MPI_Aint begin = block.offset + static_cast<MPI_Aint>(layout.first);
    first = std::min(first, begin);
    end = std::max(end, begin + static_cast<MPI_Aint>(layout.span));
  }
  first_ = first;
  span_ = end - first;
  const auto span = static_cast<uint64_t>(span_);
  if (span <= longest_whole) memory_ = device::PinnedBuffer(span);
  if (memory_.data()) {
    address_ = at_offset(memory_.data(), -first);
  } else {
    scattered_ = ScatteredBuffer(ranges_of(region));
    address_ = at_offset(region.address, scattered_.distance());
  }
}

namespace {

char* block_at(const void* buffer, const CollectiveBlock& block) {
  return static_cast<char*>(at_offset(buffer, block.offset));
}

// Kernels pack and unpack layouts with gaps where they can. The bytes in the gaps do not change.
bool load_block(char* image, const Region& region, const CollectiveBlock& block) {
  const Layout layout = layout_of(block.count, block.datatype);
  const int device = device::device_at(first_data_byte(region.address, layout, block.offset));
  const char* buffer = block_at(region.address, block);
  if (layout.plan && !layout.contiguous) {
    const uint64_t bytes = static_cast<uint64_t>(layout.bytes);
    if (device < 0) {
      packing::move_on_host(layout.view(image), 0, layout.view(buffer), 0, bytes);
      return true;
    }
    HostBuffer packed;
    if (!pack_from_device(buffer, block.count, block.datatype, layout, device, &packed)) return false;
    packing::move_on_host(layout.view(image), 0, {packed.data(), bytes}, 0, bytes);
    return true;
  }
  void* to = image + layout.first;
  const void* from = buffer + layout.first;
  const size_t span = static_cast<size_t>(layout.span);
  if (device >= 0) return device::copy_to_host(device, to, from, span) == Error::none;
  std::memcpy(to, from, span);
  return true;
}

bool store_block(const char* image, const Region& region, const CollectiveBlock& block) {
  const Layout layout = layout_of(block.count, block.datatype);
  const int device = device::device_at(first_data_byte(region.address, layout, block.offset));
  char* buffer = block_at(region.address, block);
  const size_t bytes = static_cast<size_t>(layout.bytes);
  if (layout.contiguous) {
    if (device >= 0) return device::copy_now(device, buffer, image, bytes) == Error::none;
    std::memcpy(buffer, image, bytes);
    return true;
  }
  HostBuffer packed(bytes);
  if (!packed.data() || !pack_host(image, block.count, block.datatype, packed.data(), layout.bytes, layout))
    return false;
  return device < 0 ? unpack_host(packed.data(), layout.bytes, buffer, block.count, block.datatype, layout)
                    : unpack_to_device(packed.data(), layout.bytes, buffer, block.count, block.datatype,
                                       layout, device);
}

}  // namespace

bool HostImage::stand_in(DummyFor buffer) {
  unsigned char* const dummy = dummy_memory(buffer, static_cast<size_t>(span_));
  address_ = at_offset(dummy, -first_);
  return dummy;
}

// Blocks with datatypes of their own may lie anywhere, also in host memory.
bool HostImage::load(const Region& region) {
  return !device_memory_ ||
         (valid() &&
          std::all_of(region.blocks.begin(), region.blocks.end(), [&](const CollectiveBlock& block) {
            return load_block(block_at(address_, block), region, block);
          }));
}

bool HostImage::store(const Region& region) const {
  return !device_memory_ ||
         std::all_of(region.blocks.begin(), region.blocks.end(), [&](const CollectiveBlock& block) {
           return store_block(block_at(address_, block), region, block);
         });
}

namespace {

bool complain_unless(bool done) {
  if (!done)
    log_line(LogLevel::error, "a device buffer of a collective cannot be copied to or from host memory: %s",
             device::runtime() ? device::runtime()->error_text() : "out of memory");
  return done;
}

}  // namespace

int end_for_lack_of_addresses(MPI_Comm comm) {
  log_line(LogLevel::error, "there are no addresses left for a collective");
  if (comm != comm_self()) PMPI_Abort(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

// The other members depend on this rank, even if its bytes cannot be read: that fails the end of the call.
bool StagedCall::make_images(const Regions& regions) {
  read_ = HostImage(regions.read);
  written_ = HostImage(regions.written);
  both_empty_ = regions.bytes() == 0;
  if (!(read_.valid() || read_.stand_in(DummyFor::sent)) ||
      !(written_.valid() || written_.stand_in(DummyFor::received)))
    return false;
  loaded_ = complain_unless(read_.load(regions.read) &&
                            (!regions.written_is_read || written_.load(regions.written)) && written_.valid());
  return true;
}

int StagedCall::end(const Regions& regions) const {
  if (!loaded_) return MPI_ERR_OTHER;
  if (read_.stands_for_device() || written_.stands_for_device())
    count(Traffic::collective_staged, regions.bytes());
  return complain_unless(!regions.has_result || written_.store(regions.written)) ? MPI_SUCCESS
                                                                                 : MPI_ERR_OTHER;
}

const void* StagedCall::send_argument(const CollectiveCall& call) const {
  if (call.in_place()) return MPI_IN_PLACE;
  // Nonblocking calls start persistent collectives: quirk empty_buffers_overlap.
  static const char nothing = 0;
  return both_empty_ && read_.address() == written_.address() ? &nothing : read_.address();
}

void* StagedCall::receive_argument(const CollectiveCall& call) const {
  if (call.recvbuf == MPI_IN_PLACE) return MPI_IN_PLACE;
  // MPI_Bcast has only one buffer, and the root reads it.
  const bool root_of_bcast = call.shape().gets == Who::others && read_.stands_for_device();
  return root_of_bcast ? read_.address() : written_.address();
}

}  // namespace fairlead::mpi
