// SPDX-License-Identifier: Apache-2.0
//
// The network adapters of a machine and their distances to its GPUs, as the kernel describes both in /sys:
// the devices of classes `infiniband` (InfiniBand, RoCE, EFA) and `cxi` (Slingshot). A port that is known to
// be down is left out.

#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace fairlead::tools {

// Reads a machine's /sys. What does not exist is empty.
struct Sysfs {
  std::function<std::vector<std::string>(const std::string&)> list;  // names in a folder, sorted
  std::function<std::string(const std::string&)> first_line;         // of a file
  std::function<std::string(const std::string&)> real_path;          // without symbolic links
};

// This machine's, or that below the folder SIM_SYS_ROOT, for tests.
Sysfs this_sysfs();

struct Adapter {
  std::string name;    // "mlx5_0", "cxi0"
  int port = 0;        // 0: Slingshot adapters have one, without a number
  std::string driver;  // "mlx5_core", "efa"; "" where it is not known
  std::string path;    // of its PCI device; "" where it is not known
  int numa = -1;       // its node
  double gbits_s = 0;  // of its port; 0 where it is not known

  std::string text() const;  // "mlx5_0:1", "cxi0"
};

// Nearest first.
enum class Distance { pci_switch, root_complex, numa_node, other_node, unknown };
const char* to_string(Distance distance);

struct NearAdapters {
  Distance distance = Distance::unknown;
  std::vector<Adapter> list;  // the nearest of all; of equally near ones, the fastest
};

std::vector<Adapter> usable_adapters(const Sysfs& sys);
// `pci` is the GPU's address, "0000:1b:00.0".
NearAdapters nearest_adapters(const Sysfs& sys, const std::vector<Adapter>& all, const std::string& pci);

// The variables by which UCX and libfabric use this adapter alone, and their values. None of NCCL's: NCCL
// chooses an adapter for each GPU itself, and fails where the ranks of a node see different adapters.
std::vector<std::pair<std::string, std::string>> variables_for(const Adapter& adapter);

}  // namespace fairlead::tools
