// SPDX-License-Identifier: Apache-2.0
//
// The places of this machine's GPUs: the cores and the NUMA node near each, and its PCIe link. They come from
// hwloc, which is opened at run time, or from /sys on machines without it. HWLOC_XMLFILE names the topology
// of another machine; simulated GPUs then have places there. The links of AMD GPUs come from the kernel
// (KFD); FAIRLEAD_KFD_TOPOLOGY names the description of another machine.

#pragma once

#include <string>
#include <vector>

#include "matrix/placement.h"
#include "run/cpus.h"

namespace fairlead::tools {

// A GPU as this process may use it.
struct GpuPlace {
  int ordinal = 0;
  std::string pci;       // "0000:1b:00.0"
  Cpus near;             // the cores that are closest to it
  double pcie_gb_s = 0;  // of its link; 0 where it is not known
};

struct Topology {
  std::string source;       // "hwloc 2.9.0", "/sys"
  Cpus all;                 // what an unbound process may use
  Cpus mine;                // what this process may use
  std::vector<Cpus> cores;  // the hardware threads of each core
  std::vector<std::pair<int, Cpus>> numa;
  std::vector<GpuPlace> gpus;
  // From each of them to each, estimated by their links; no side where nothing tells of these.
  matrix::Grid<double> gb_s;

  bool bound() const { return mine != all; }
  // "0", "0-1", "?": the NUMA nodes that these lie in.
  std::string numa_of(const Cpus& cpus) const;
};

// What tells of this machine's places; asks no GPU driver.
std::string topology_source();

// Starts the GPU driver, to ask it which GPUs this process sees.
Topology read_topology();

}  // namespace fairlead::tools
