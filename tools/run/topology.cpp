// SPDX-License-Identifier: Apache-2.0

#include "run/topology.h"

#include <dlfcn.h>
#include <fairlead/device.h>
#include <fmt/format.h>
#if __has_include(<hwloc.h>)
#include <hwloc.h>
#endif

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "bench/machine.h"
#include "common/words.h"
#include "device/hip/kfd_topology.h"

namespace fairlead::tools {
namespace {

// What a topology knows of a PCI device.
struct PciPlace {
  Cpus near;
  double pcie_gb_s = 0;
};

#ifdef HWLOC_API_VERSION

// The functions of hwloc that are not inline in its header.
struct Hwloc {
  decltype(&hwloc_get_api_version) get_api_version;
  decltype(&hwloc_topology_init) topology_init;
  decltype(&hwloc_topology_load) topology_load;
  decltype(&hwloc_topology_destroy) topology_destroy;
  decltype(&hwloc_topology_set_io_types_filter) topology_set_io_types_filter;
  decltype(&hwloc_topology_is_thissystem) topology_is_thissystem;
  decltype(&hwloc_topology_get_allowed_cpuset) topology_get_allowed_cpuset;
  decltype(&hwloc_get_type_depth) get_type_depth;
  decltype(&hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth;
  decltype(&hwloc_bitmap_next) bitmap_next;

  bool open() {
    void* handle = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);  // of every hwloc 2
    auto bind = [handle](auto* function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
      return *function != nullptr;
    };
    return handle && bind(&get_api_version, "hwloc_get_api_version") &&
           bind(&topology_init, "hwloc_topology_init") && bind(&topology_load, "hwloc_topology_load") &&
           bind(&topology_destroy, "hwloc_topology_destroy") &&
           bind(&topology_set_io_types_filter, "hwloc_topology_set_io_types_filter") &&
           bind(&topology_is_thissystem, "hwloc_topology_is_thissystem") &&
           bind(&topology_get_allowed_cpuset, "hwloc_topology_get_allowed_cpuset") &&
           bind(&get_type_depth, "hwloc_get_type_depth") &&
           bind(&get_nbobjs_by_depth, "hwloc_get_nbobjs_by_depth") &&
           bind(&get_obj_by_depth, "hwloc_get_obj_by_depth") && bind(&bitmap_next, "hwloc_bitmap_next");
  }

  Cpus cpus(hwloc_const_bitmap_t bitmap) const {
    Cpus found;
    for (int cpu = bitmap_next(bitmap, -1); bitmap && cpu >= 0; cpu = bitmap_next(bitmap, cpu))
      found.insert(cpu);
    return found;
  }

  std::vector<hwloc_obj_t> objects(hwloc_topology_t topology, hwloc_obj_type_t type) const {
    std::vector<hwloc_obj_t> found;
    int depth = get_type_depth(topology, type);
    for (unsigned i = 0; i < get_nbobjs_by_depth(topology, depth); ++i)
      found.push_back(get_obj_by_depth(topology, depth, i));
    return found;
  }
};

// Displays and accelerators of those who make GPUs that compute; not what shows a server's console.
bool is_gpu(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  constexpr unsigned nvidia = 0x10de, amd = 0x1002, display = 0x03, accelerator = 0x12;
  unsigned kind = pci.class_id >> 8;
  return (pci.vendor_id == nvidia || pci.vendor_id == amd) && (kind == display || kind == accelerator);
}

bool ask_hwloc(Topology* topology, std::map<std::string, PciPlace>* places, std::vector<std::string>* gpus) {
  Hwloc hwloc{};
  hwloc_topology_t tree = nullptr;
  if (!hwloc.open() || hwloc.topology_init(&tree) != 0) return false;
  bool loaded = hwloc.topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
                hwloc.topology_load(tree) == 0;
  if (loaded) {
    unsigned version = hwloc.get_api_version();
    topology->source = fmt::format("hwloc {}.{}", version >> 16, version >> 8 & 0xff);
    topology->all = hwloc.cpus(hwloc.topology_get_allowed_cpuset(tree));
    topology->mine = hwloc.topology_is_thissystem(tree) ? common(own_cpus(), topology->all) : topology->all;
    for (hwloc_obj_t core : hwloc.objects(tree, HWLOC_OBJ_CORE))
      topology->cores.push_back(hwloc.cpus(core->cpuset));
    for (hwloc_obj_t node : hwloc.objects(tree, HWLOC_OBJ_NUMANODE))
      topology->numa.emplace_back(node->os_index, hwloc.cpus(node->cpuset));
    for (hwloc_obj_t device : hwloc.objects(tree, HWLOC_OBJ_PCI_DEVICE)) {
      const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = device->attr->pcidev;
      std::string address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
      hwloc_obj_t near = device;
      while (near && !near->cpuset) near = near->parent;
      places->emplace(address, PciPlace{near ? hwloc.cpus(near->cpuset) : topology->all, pci.linkspeed});
      if (is_gpu(pci)) gpus->push_back(address);
    }
  }
  hwloc.topology_destroy(tree);
  std::sort(gpus->begin(), gpus->end());  // as drivers number them
  return loaded;
}

#else

bool ask_hwloc(Topology*, std::map<std::string, PciPlace>*, std::vector<std::string>*) {
  return false;
}

#endif

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

void ask_sys(Topology* topology) {
  topology->source = "/sys";
  topology->mine = own_cpus();
  topology->all = cpus_of(closest_cpus(""));
  for (int node : cpus_of(first_line("/sys/devices/system/node/online")))
    topology->numa.emplace_back(
        node, cpus_of(first_line(fmt::format("/sys/devices/system/node/node{}/cpulist", node))));
}

// A partition of a GPU has its number in place of a function, where the bus has none.
std::string without_partition(const std::string& pci) {
  std::error_code error;
  if (pci.empty() || std::filesystem::exists("/sys/bus/pci/devices/" + pci, error)) return pci;
  return pci.substr(0, pci.size() - 1) + "0";
}

// Where the kernel describes all of them.
matrix::Grid<double> speeds_of(const std::vector<GpuPlace>& gpus, const std::vector<device::KfdGpu>& known) {
  std::vector<const device::KfdGpu*> found;
  for (const GpuPlace& gpu : gpus) found.push_back(device::kfd_gpu_at(known, gpu.pci));
  if (std::count(found.begin(), found.end(), nullptr)) return matrix::Grid<double>();
  matrix::Grid<double> gb_s(gpus.size());
  for (size_t from = 0; from < gpus.size(); ++from)
    for (size_t to = 0; to < gpus.size(); ++to)
      gb_s.at(from, to) = device::kfd_gb_s(*found[from], *found[to]);
  return gb_s;
}

}  // namespace

std::string Topology::numa_of(const Cpus& cpus) const {
  Cpus nodes;
  for (const auto& [node, of_node] : numa)
    if (!common(cpus, of_node).empty()) nodes.insert(node);
  return nodes.empty() ? "?" : to_text(nodes);
}

std::string topology_source() {
  Topology topology;
  std::map<std::string, PciPlace> places;
  std::vector<std::string> gpus;
  if (!ask_hwloc(&topology, &places, &gpus)) ask_sys(&topology);
  return topology.source;
}

Topology read_topology() {
  Topology topology;
  std::map<std::string, PciPlace> places;
  std::vector<std::string> gpus;
  bool asked = ask_hwloc(&topology, &places, &gpus);
  if (!asked) ask_sys(&topology);

  // In the order of the kernel's description, which has partitions, too, HIP numbers GPUs of one
  // architecture.
  const std::vector<device::KfdGpu> amd = device::read_kfd_topology();
  if (!amd.empty()) gpus.clear();
  for (const device::KfdGpu& gpu : amd) gpus.push_back(gpu.pci);

  bool simulated = std::string_view(fairlead_device_provider()) == "sim";
  for (int ordinal = 0; ordinal < fairlead_device_count(); ++ordinal) {
    GpuPlace gpu{ordinal, lower(fairlead_device_pci(ordinal)), topology.all};
    // A simulated GPU stands where the machine has a real one.
    if (simulated && !gpus.empty()) gpu.pci = gpus[static_cast<size_t>(ordinal) % gpus.size()];
    auto place = places.find(gpu.pci);
    if (place == places.end()) place = places.find(without_partition(gpu.pci));
    if (place != places.end()) {
      gpu.near = common(place->second.near, topology.all);
      gpu.pcie_gb_s = place->second.pcie_gb_s;
    } else if (!asked) {
      gpu.near = common(cpus_of(closest_cpus(without_partition(gpu.pci))), topology.all);
    }
    topology.gpus.push_back(gpu);
  }
  topology.gb_s = speeds_of(topology.gpus, amd);
  return topology;
}

}  // namespace fairlead::tools
