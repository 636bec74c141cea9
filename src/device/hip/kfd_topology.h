// SPDX-License-Identifier: Apache-2.0
//
// The AMD GPUs of this machine as the kernel driver (KFD) describes them in sysfs, including those hidden
// from this process: the PCI address of each, its target, and its links to the others. Only reads files;
// initialises nothing.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fairlead::device {

enum class KfdLinkKind : uint8_t {
  none,  // sysfs does not describe this pair
  pcie,
  xgmi,
  package,  // partitions of one GPU, for example of an MI300X in CPX mode
};

struct KfdLink {
  int node = -1;  // the GPU at the other end
  KfdLinkKind kind = KfdLinkKind::none;
  int hops = 1;          // for XGMI
  int links = 0;         // parallel links; 0 if the driver does not report them
  double gb_s = 0;       // of all links together; 0 if the driver does not report it
  bool atomics = false;  // kernels of both may change words of either; never over PCIe
};

struct KfdGpu {
  int node = -1;
  uint64_t id = 0;     // by which the driver names it in other files
  int render = 0;      // of its device file /dev/dri/renderD128
  std::string pci;     // "0000:c1:00.0", as HIP prints it; the function number is the partition
  std::string target;  // "gfx90a"
  uint64_t serial = 0;
  std::vector<KfdLink> links;

  KfdLink link_to(const KfdGpu& other) const;
};

// How to read the files of this machine or of a recorded one. Files that do not exist count as empty.
struct SysFiles {
  std::function<std::string(const std::string& path)> read;
  std::function<std::vector<std::string>(const std::string& folder)> list;
};

// Returns the GPUs in the order of their nodes, in which HIP numbers the GPUs of one architecture. `root`
// contains a folder `nodes`; option FAIRLEAD_KFD_TOPOLOGY sets it. Each link is a file of its own, and
// partitioned GPUs have thousands of them, so callers that do not need links omit them.
enum class KfdDetail : uint8_t { gpus, links };
std::vector<KfdGpu> read_kfd_topology(const std::string& root, const SysFiles& files,
                                      KfdDetail detail = KfdDetail::links);
std::vector<KfdGpu> read_kfd_topology(KfdDetail detail = KfdDetail::links);

// Returns null if no GPU has this address. If several have it (old kernels give partitions the same one),
// returns any of them.
const KfdGpu* kfd_gpu_at(const std::vector<KfdGpu>& gpus, const std::string& pci);

// Returns the GPU's target, or the one that HSA_OVERRIDE_GFX_VERSION makes ROCr assume. Users set that
// variable for GPUs for which ROCm's libraries contain no code.
std::string target_for_hip(const KfdGpu& gpu);

// Returns the PCI address, "0000:c1:00.0", of a location as the driver and ROCr encode it.
std::string pci_address(uint64_t domain, uint64_t location);

// Estimates the bandwidth between two GPUs: suitable to compare pairs, not as an absolute value.
double kfd_gb_s(const KfdGpu& from, const KfdGpu& to);

}  // namespace fairlead::device
