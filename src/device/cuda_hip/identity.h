// SPDX-License-Identifier: Apache-2.0
//
// Determines the identity of a GPU within its node: its UUID, or its PCI address if the driver provides no
// UUID or the same one for several GPUs.

#pragma once

#include <strings.h>

#include <cstring>
#include <span>

#include "device/cuda_hip/abi.h"
#include "device/runtime.h"

namespace fairlead::device {

template <class Abi>
bool tells_one_device(const Abi& api, std::span<const typename Abi::Device> devices, size_t device,
                      const typename Abi::Uuid& uuid) {
  if (Abi::is_placeholder(uuid)) return false;
  if (!Abi::uuids_repeat) return true;
  for (size_t other = 0; other < devices.size(); ++other) {
    typename Abi::Uuid theirs{};
    if (other != device && api.device_uuid(&theirs, devices[other]) == driver_result::success &&
        std::memcmp(&theirs, &uuid, sizeof uuid) == 0)
      return false;
  }
  return true;
}

// Sets info->uuid of devices[device]; info->pci must be set. With some drivers all partitions of one GPU have
// the same PCI address; this function numbers those that the process sees.
template <class Abi>
void identify(const Abi& api, std::span<const typename Abi::Device> devices, size_t device,
              const typename Abi::Uuid& uuid, DeviceInfo* info) {
  static_assert(sizeof info->uuid == sizeof uuid && sizeof info->pci == sizeof info->uuid);
  if (tells_one_device(api, devices, device, uuid)) {
    std::memcpy(info->uuid, &uuid, sizeof info->uuid);
    return;
  }
  std::memcpy(info->uuid, info->pci, sizeof info->uuid);
  uint8_t partition = 0;
  for (size_t other = 0; other < device; ++other) {
    char pci[sizeof info->pci] = "";
    if (api.device_pci(+pci, int{sizeof pci}, devices[other]) == driver_result::success &&
        strcasecmp(pci, info->pci) == 0)
      ++partition;
  }
  static_assert(sizeof "0000:1b:00.0" < sizeof info->uuid, "the last byte is free");
  info->uuid[sizeof info->uuid - 1] = partition;
}

}  // namespace fairlead::device
