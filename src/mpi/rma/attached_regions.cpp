// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/attached_regions.h"

#include <algorithm>

#include "device/classify.h"

namespace fairlead::mpi {

void AttachedRegions::attach(const void* base, uint64_t size) {
  if (size > 0) regions_[reinterpret_cast<uintptr_t>(base)] = {size, device::classify(base).id};
}

void AttachedRegions::detach(const void* base) {
  regions_.erase(reinterpret_cast<uintptr_t>(base));
}

AttachedRegions::Entry AttachedRegions::find(uint64_t low, uint64_t high) const {
  auto found = regions_.upper_bound(low);
  if (found == regions_.begin()) return regions_.end();
  --found;
  const auto& [base, region] = *found;
  // The program may have freed the device memory and allocated other memory at the same address.
  const bool holds =
      high - base <= region.size && device::classify(reinterpret_cast<void*>(base)).id == region.id;
  return holds ? found : regions_.end();
}

bool AttachedRegions::locate(rma::Buffer* buffer, uint64_t at, uint64_t bytes, int64_t low,
                             int64_t high) const {
  const auto device_of = [](Entry entry) { return device::device_at(reinterpret_cast<void*>(entry->first)); };
  Entry region = find(static_cast<uint64_t>(low), static_cast<uint64_t>(high));
  if (region != regions_.end()) {
    buffer->device = device_of(region);
    return true;
  }
  // No single region holds all bytes, so each byte must lie in some region. Consecutive blocks mostly lie in
  // the same region, and a block may continue in the next region.
  const auto address = reinterpret_cast<uintptr_t>(buffer->address());
  buffer->device = -1;
  for (uint64_t done = 0; done < bytes;) {
    const packing::View::Run run = buffer->view.run_at(at + done);
    const uint64_t first = address + static_cast<uint64_t>(run.offset);
    if (region == regions_.end() || first - region->first >= region->second.size) {
      if ((region = find(first, first + 1)) == regions_.end()) return false;
      buffer->device = std::max(buffer->device, device_of(region));
    }
    done += std::min({run.bytes, bytes - done, region->first + region->second.size - first});
  }
  // Copies can access all memory from any device; a kernel can access only what lies in one allocation.
  buffer->by_blocks = buffer->on_device();
  return true;
}

}  // namespace fairlead::mpi
