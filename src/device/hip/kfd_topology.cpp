// SPDX-License-Identifier: Apache-2.0

#include "device/hip/kfd_topology.h"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "base/environment.h"
#include "base/options.h"
#include "base/small_file.h"

namespace fairlead::device {
namespace {

// Link types of the firmware's tables (CRAT), which the driver reports unchanged.
constexpr uint64_t type_pcie = 2, type_xgmi = 11;
// Weights that the driver assigns to XGMI links: 15 per hop; on partitioned GPUs 13 inside a package, and 13
// + 15 + 13 to another package.
constexpr uint64_t weight_of_hop = 15, weight_in_package = 13;

// CRAT_IOLINK_FLAGS_NO_ATOMICS_32_BIT and _64_BIT
constexpr uint64_t flags_no_atomics = 4 | 8;

// Each line is "name value"; values are decimal.
using Properties = std::map<std::string, uint64_t>;

Properties properties_of(const std::string& text) {
  Properties properties;
  std::istringstream lines(text);
  std::string name, value;
  while (lines >> name >> value) properties[name] = std::strtoull(value.c_str(), nullptr, 10);
  return properties;
}

// For example, 9, 0 and 10 give gfx90a.
std::string target_of(unsigned major, unsigned minor, unsigned stepping) {
  char name[48];
  std::snprintf(name, sizeof name, "gfx%u%x%x", major, minor, stepping);
  return name;
}

KfdLink link_of(const Properties& properties) {
  auto value = [&](const char* name) {
    auto found = properties.find(name);
    return found == properties.end() ? 0 : found->second;
  };
  KfdLink link;
  link.node = properties.contains("node_to") ? static_cast<int>(value("node_to")) : -1;
  const uint64_t weight = value("weight"), least = value("min_bandwidth"), most = value("max_bandwidth");
  link.gb_s = static_cast<double>(most) / 1e3;
  if (value("type") == type_pcie) {
    link.kind = KfdLinkKind::pcie;
  } else if (value("type") == type_xgmi) {
    link.kind = weight == weight_in_package ? KfdLinkKind::package : KfdLinkKind::xgmi;
    link.atomics = !(value("flags") & flags_no_atomics);
    link.hops = static_cast<int>(std::max<uint64_t>(weight / weight_of_hop, 1));
    if (weight % weight_of_hop) link.hops = 1;
    if (least && link.kind == KfdLinkKind::xgmi) link.links = static_cast<int>(most / least);
  }
  return link;
}

std::string read_of_this_machine(const std::string& path) {
  std::string text;
  (void)read_small_file(path, &text);
  return text;
}

std::vector<std::string> list_of_this_machine(const std::string& folder) {
  std::vector<std::string> names;
  if (DIR* opened = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(opened))
      if (entry->d_name[0] != '.') names.push_back(entry->d_name);
    closedir(opened);
  }
  return names;
}

}  // namespace

// The location encodes bus, device and function. Partitions of one GPU have their number in the function
// field, which their bus does not use, or in the highest four bits, which HIP's address does not contain.
std::string pci_address(uint64_t domain, uint64_t location) {
  char address[32];
  std::snprintf(address, sizeof address, "%04x:%02x:%02x.%x", static_cast<unsigned>(domain),
                static_cast<unsigned>(location >> 8 & 0xff), static_cast<unsigned>(location >> 3 & 0x1f),
                static_cast<unsigned>(location & 7));
  return address;
}

KfdLink KfdGpu::link_to(const KfdGpu& other) const {
  for (const KfdLink& link : links)
    if (link.node == other.node) return link;
  return {};
}

std::vector<KfdGpu> read_kfd_topology(const std::string& root, const SysFiles& files, KfdDetail detail) {
  std::vector<KfdGpu> gpus;
  const std::string nodes = root + "/nodes";
  for (const std::string& name : files.list(nodes)) {
    const std::string node = nodes + "/" + name;
    Properties properties = properties_of(files.read(node + "/properties"));
    const auto version = static_cast<unsigned>(properties["gfx_target_version"]);  // 90010 is gfx90a
    if (version == 0) continue;  // a CPU, or a GPU that this process may not access
    KfdGpu gpu;
    gpu.node = std::atoi(name.c_str());
    gpu.pci = pci_address(properties["domain"], properties["location_id"]);
    gpu.target = target_of(version / 10000, version / 100 % 100, version % 100);
    gpu.serial = properties["unique_id"];
    gpu.render = static_cast<int>(properties["drm_render_minor"]);
    gpu.id = std::strtoull(files.read(node + "/gpu_id").c_str(), nullptr, 10);
    for (const char* kind : {"/io_links", "/p2p_links"}) {
      if (detail == KfdDetail::gpus) break;
      for (const std::string& link : files.list(node + kind))
        gpu.links.push_back(link_of(properties_of(files.read(node + kind + "/" + link + "/properties"))));
    }
    gpus.push_back(gpu);
  }
  std::sort(gpus.begin(), gpus.end(), [](const KfdGpu& a, const KfdGpu& b) { return a.node < b.node; });
  return gpus;
}

std::vector<KfdGpu> read_kfd_topology(KfdDetail detail) {
  return read_kfd_topology(options().kfd_topology, {read_of_this_machine, list_of_this_machine}, detail);
}

const KfdGpu* kfd_gpu_at(const std::vector<KfdGpu>& gpus, const std::string& pci) {
  auto found = std::find_if(gpus.begin(), gpus.end(), [&](const KfdGpu& gpu) { return gpu.pci == pci; });
  return found == gpus.end() ? nullptr : &*found;
}

std::string target_for_hip(const KfdGpu& gpu) {
  const std::string variable = "HSA_OVERRIDE_GFX_VERSION";
  const char* text = environment_variable((variable + "_" + std::to_string(gpu.node)).c_str());
  if (!text) text = environment_variable(variable.c_str());
  unsigned major = 0, minor = 0, stepping = 0;
  const bool other = text && std::sscanf(text, "%u.%u.%u", &major, &minor, &stepping) == 3;
  return other ? target_of(major, minor, stepping) : gpu.target;
}

double kfd_gb_s(const KfdGpu& from, const KfdGpu& to) {
  constexpr double unknown = 5, pcie = 20, xgmi = 50, package = 800;
  const KfdLink link = from.link_to(to);
  switch (link.kind) {
    case KfdLinkKind::package:
      return package;
    case KfdLinkKind::xgmi:
      return (link.gb_s > 0 ? link.gb_s : xgmi) / link.hops;
    case KfdLinkKind::pcie:
      return pcie;
    case KfdLinkKind::none:
      break;
  }
  return unknown;
}

}  // namespace fairlead::device
