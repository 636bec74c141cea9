// SPDX-License-Identifier: Apache-2.0
//
// The NVLink domain of a GPU. Only NVML knows it, a library of the driver that is opened at run time.

#pragma once

#include <string>

#include "device/runtime.h"

namespace fairlead::device {

// Finds the domain of the GPU at this place of the PCI bus. Returns "", or why it has none, with what NVML
// says. Thread-safe; the first call initialises NVML, which takes a while.
std::string find_fabric_domain(const char* pci, FabricDomain* domain);

}  // namespace fairlead::device
