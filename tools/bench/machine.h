// SPDX-License-Identifier: Apache-2.0
//
// What the machine is, for the context of results: processor, memory, GPUs and which cores are near them.
// Read from /proc and /sys, so that nothing here wakes a GPU driver.

#pragma once

#include <cstdint>
#include <string>

namespace fairlead::tools {

std::string cpu_model();
int logical_cpus();
uint64_t memory_bytes();            // of the whole machine
uint64_t available_memory_bytes();  // what could be had now

// The cores this process may run on, as "0-3,8".
std::string bound_cpus();
// The cores nearest to a PCI device, in the same form; all that are online where the system does not say.
std::string closest_cpus(const std::string& pci);

}  // namespace fairlead::tools
