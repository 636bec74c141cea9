// SPDX-License-Identifier: Apache-2.0
//
// The AMD GPUs of this machine as the kernel's driver (KFD) describes them in sysfs, whatever this process
// sees of them: where each is, its target, and its links to the others. Reads files only: nothing is
// initialised.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fairlead::device {

enum class KfdLinkKind : uint8_t {
  none,  // nothing is said of the two
  pcie,
  xgmi,
  package,  // partitions of one GPU, as of an MI300X in mode CPX
};

struct KfdLink {
  int node = -1;  // the GPU at the other end
  KfdLinkKind kind = KfdLinkKind::none;
  int hops = 1;     // of XGMI
  int links = 0;    // side by side; 0 where the driver does not tell
  double gb_s = 0;  // of all of them; 0 where the driver does not tell
};

struct KfdGpu {
  int node = -1;
  std::string pci;     // "0000:c1:00.0", as HIP prints it: of partitions the function is their number
  std::string target;  // "gfx90a"
  uint64_t serial = 0;
  std::vector<KfdLink> links;

  KfdLink link_to(const KfdGpu& other) const;
};

// How the files of a machine, or of a recorded one, are read. What is not there is empty.
struct SysFiles {
  std::function<std::string(const std::string& path)> read;
  std::function<std::vector<std::string>(const std::string& folder)> list;
};

// The GPUs in the order of their nodes, in which HIP numbers those of one architecture; `root` has a folder
// nodes. Option FAIRLEAD_KFD_TOPOLOGY names it.
// Links are a file each, thousands where GPUs are partitioned: whoever needs none leaves them out.
enum class KfdDetail : uint8_t { gpus, links };
std::vector<KfdGpu> read_kfd_topology(const std::string& root, const SysFiles& files,
                                      KfdDetail detail = KfdDetail::links);
std::vector<KfdGpu> read_kfd_topology(KfdDetail detail = KfdDetail::links);

// Null where none has this address. Of several with one address, as old kernels give to partitions, any.
const KfdGpu* kfd_gpu_at(const std::vector<KfdGpu>& gpus, const std::string& pci);

// Its target, or the one that HSA_OVERRIDE_GFX_VERSION makes ROCr take it for, as people do with GPUs for
// which ROCm's libraries have no code.
std::string target_for_hip(const KfdGpu& gpu);

// An estimate of what moves from one to the other: to compare pairs, not to tell.
double kfd_gb_s(const KfdGpu& from, const KfdGpu& to);

}  // namespace fairlead::device
