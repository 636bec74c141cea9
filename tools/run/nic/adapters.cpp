// SPDX-License-Identifier: Apache-2.0

#include "run/nic/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <tuple>

namespace fairlead::tools {
namespace {

namespace fs = std::filesystem;

std::string last_part(const std::string& path) {
  return fs::path(path).filename().string();
}

int numa_node(const Sysfs& sys, const std::string& device) {
  const std::string node = sys.first_line(device + "/numa_node");
  return node.empty() ? -1 : std::atoi(node.c_str());
}

bool is_root_complex(const std::string& part) {  // "pci0000:17"
  return part.starts_with("pci") && part.find(':') != std::string::npos;
}

// "pci0000:17", "0000:17:01.0", ...: the bridges from the root complex on, and the device.
std::vector<std::string> bridges_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : fs::path(path))
    if (!parts.empty() || is_root_complex(part.string())) parts.push_back(part.string());
  return parts;
}

struct Nearness {
  Distance distance;
  size_t shared;  // bridges above both
};

Nearness nearness(const std::string& gpu_path, int gpu_numa, const Adapter& adapter) {
  const std::vector<std::string> gpu = bridges_of(gpu_path), nic = bridges_of(adapter.path);
  const auto first_other = std::mismatch(gpu.begin(), gpu.end(), nic.begin(), nic.end()).first;
  const auto shared = static_cast<size_t>(first_other - gpu.begin());
  if (shared > 1) return {Distance::pci_switch, shared};
  if (shared == 1) return {Distance::root_complex, shared};
  if (gpu_numa < 0 || adapter.numa < 0) return {Distance::unknown, 0};
  return {gpu_numa == adapter.numa ? Distance::numa_node : Distance::other_node, 0};
}

}  // namespace

Sysfs this_sysfs() {
  const char* other = std::getenv("SIM_SYS_ROOT");
  const std::string root = other ? other : "";
  Sysfs sys;
  sys.list = [root](const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root + folder, error))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  };
  sys.first_line = [root](const std::string& path) {
    std::string line;
    std::ifstream file(root + path);
    std::getline(file, line);
    return line;
  };
  sys.real_path = [root](const std::string& path) {
    std::error_code error;
    return fs::canonical(root + path, error).string();
  };
  return sys;
}

std::string Adapter::text() const {
  return port ? fmt::format("{}:{}", name, port) : name;
}

const char* to_string(Distance distance) {
  switch (distance) {
    case Distance::pci_switch:
      return "same PCI switch";
    case Distance::root_complex:
      return "same root complex";
    case Distance::numa_node:
      return "same NUMA node";
    case Distance::other_node:
      return "other NUMA node";
    default:
      return "distance not known";
  }
}

std::vector<Adapter> usable_adapters(const Sysfs& sys) {
  std::vector<Adapter> found;
  for (const char* folder : {"/sys/class/infiniband/", "/sys/class/cxi/"})
    for (const std::string& name : sys.list(folder)) {
      const std::string place = folder + name, device = place + "/device";
      Adapter adapter{name,
                      0,
                      last_part(sys.real_path(device + "/driver")),
                      sys.real_path(device),
                      numa_node(sys, device),
                      0};
      if (std::string_view(folder).ends_with("/cxi/")) {
        found.push_back(adapter);
        continue;
      }
      std::vector<std::string> ports = sys.list(place + "/ports");
      if (ports.empty()) ports.push_back("1");
      for (const std::string& port : ports) {
        const std::string state = sys.first_line(place + "/ports/" + port + "/state");  // "4: ACTIVE"
        if (!state.empty() && !state.starts_with("4:")) continue;
        adapter.port = std::atoi(port.c_str());
        // "400 Gb/sec (4X NDR)"
        adapter.gbits_s = std::atof(sys.first_line(place + "/ports/" + port + "/rate").c_str());
        found.push_back(adapter);
      }
    }
  return found;
}

NearAdapters nearest_adapters(const Sysfs& sys, const std::vector<Adapter>& all, const std::string& pci) {
  std::string device = "/sys/bus/pci/devices/" + pci;
  std::string path = sys.real_path(device);
  // A partition of a GPU has its number in place of a function, where the bus has none.
  if (path.empty() && !pci.empty()) {
    device.back() = '0';
    path = sys.real_path(device);
  }
  const int numa = numa_node(sys, device);
  NearAdapters near;
  auto order = [&](const Adapter& adapter) {
    const Nearness of = nearness(path, numa, adapter);
    return std::tuple(of.distance, -static_cast<long>(of.shared), -adapter.gbits_s);
  };
  for (const Adapter& adapter : all) {
    if (!near.list.empty() && order(near.list.front()) < order(adapter)) continue;
    if (!near.list.empty() && order(adapter) < order(near.list.front())) near.list.clear();
    near.list.push_back(adapter);
  }
  if (!near.list.empty()) near.distance = std::get<0>(order(near.list.front()));
  return near;
}

std::vector<std::pair<std::string, std::string>> variables_for(const Adapter& adapter) {
  if (adapter.port == 0) return {{"FI_CXI_DEVICE_NAME", adapter.name}};
  if (adapter.driver == "efa") return {{"FI_EFA_IFACE", adapter.name}};
  return {{"UCX_NET_DEVICES", adapter.text()}, {"FI_VERBS_DEVICE_NAME", adapter.name}};
}

}  // namespace fairlead::tools
