// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs a machine has, from the vendors' tools, and from the PCI bus where there are no tools.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "device/hip/library.h"
#include "device/pci_gpu.h"
#include "doctor/machine.h"

namespace fairlead::tools::doctor {
namespace {

// "00000000:1B:00.0" and "0000:1B:00.0" alike.
std::string pci_address(const std::string& text) {
  std::string address = lower(trimmed(text));
  return address.size() > 12 ? address.substr(address.size() - 12) : address;
}

// "65536 MiB"
uint64_t mebibytes(const std::string& text) {
  return holds(text, "MiB") ? std::strtoull(text.c_str(), nullptr, 10) << 20 : 0;
}

int numa_node(const System& system, const std::string& pci) {
  std::string node = system.first_line("/sys/bus/pci/devices/" + pci + "/numa_node");
  return node.empty() ? -1 : std::atoi(node.c_str());
}

// What `nvidia-smi -q` says of one GPU: keys in sections and their parts, told apart by their indentation, as
// "section/key" and "section/part/key".
std::map<std::string, std::string> nvidia_keys(const std::vector<std::string>& lines) {
  std::map<std::string, std::string> keys;
  std::string section, part;
  for (const std::string& line : lines) {
    size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) continue;
    size_t colon = line.find(" : ");
    std::string name = lower(trimmed(line.substr(0, colon)));
    if (indent <= 4) section.clear();
    if (indent <= 8) part.clear();
    if (colon == std::string::npos && indent <= 8) (indent <= 4 ? section : part) = name + "/";
    if (colon != std::string::npos && indent <= 12)
      keys.emplace(section + part + name, trimmed(line.substr(colon + 3)));
  }
  return keys;
}

// In all memories of a GPU: counts of the keys of "ecc errors/volatile/" or "ecc errors/aggregate/" that hold
// `kind`.
uint64_t nvidia_errors(const std::map<std::string, std::string>& keys, const std::string& span,
                       const char* kind) {
  uint64_t sum = 0;
  const std::string part = "ecc errors/" + span + "/";
  for (auto key = keys.lower_bound(part); key != keys.end() && key->first.rfind(part, 0) == 0; ++key)
    if (holds(key->first, kind)) sum += std::strtoull(key->second.c_str(), nullptr, 10);
  return sum;
}

bool find_nvidia(const System& system, Gpus* gpus) {
  if (system.program("nvidia-smi").empty()) return false;
  std::string text = system.run({"nvidia-smi", "-q"}).value_or("");
  std::vector<std::vector<std::string>> blocks;
  for (const std::string& line : lines_of(text)) {
    if (line.rfind("GPU ", 0) == 0) blocks.emplace_back();
    if (!blocks.empty()) blocks.back().push_back(line);
  }
  if (blocks.empty()) {
    gpus->tool_words = text.empty() ? "nvidia-smi -q did not answer" : lines_of(trimmed(text)).front();
    return false;
  }
  gpus->vendor = Vendor::nvidia;
  gpus->source = "nvidia-smi";
  auto behind_colon = [&](const char* key) {
    std::string value = value_of(text, key);
    return value.empty() ? value : trimmed(value.substr(1));
  };
  gpus->driver = behind_colon("Driver Version");
  gpus->runtime = behind_colon("CUDA Version");
  for (const auto& block : blocks) {
    auto keys = nvidia_keys(block);
    Gpu gpu;
    gpu.index = static_cast<int>(gpus->list.size());
    gpu.name = keys["product name"];
    gpu.pci = pci_address(block.front().substr(4));
    gpu.compute_mode = keys["compute mode"];
    gpu.mig = keys["mig mode/current"];
    gpu.ecc = keys["ecc mode/current"];
    gpu.corrected = nvidia_errors(keys, "volatile", " correctable");
    gpu.uncorrected = nvidia_errors(keys, "volatile", " uncorrectable");
    gpu.uncorrected_ever = nvidia_errors(keys, "aggregate", " uncorrectable");
    gpu.addressing = keys["addressing mode"];
    gpu.cluster = keys["fabric/clusteruuid"];
    gpu.clique = keys["fabric/cliqueid"];
    gpu.memory = mebibytes(keys["fb memory usage/total"]);
    gpu.bar = mebibytes(keys["bar1 memory usage/total"]);
    gpu.numa = numa_node(system, gpu.pci);
    const std::string status =
        system.read(fmt::format("/proc/driver/nvidia/gpus/{}/numa_status", gpu.pci)).value_or("");
    if (value_of(status, "Status:") == "online")
      gpu.memory_node = std::atoi(value_of(status, "Node:").c_str());
    gpus->list.push_back(gpu);
  }
  return true;
}

// "GPU[0]          : Card Series:          AMD Instinct MI250X": the value of `key` for each GPU.
std::map<int, std::string> rocm_values(const std::string& text, const std::string& key) {
  std::map<int, std::string> values;
  for (const std::string& line : lines_of(text)) {
    size_t at = lower(line).find(key + ":");
    if (line.rfind("GPU[", 0) != 0 || at == std::string::npos) continue;
    values[std::atoi(line.c_str() + 4)] = trimmed(line.substr(at + key.size() + 1));
  }
  return values;
}

// GPUs by their indices, which those with an address have.
std::vector<Gpu> listed(std::map<int, std::string> names, const std::map<int, std::string>& addresses) {
  std::vector<Gpu> gpus;
  for (const auto& [index, pci] : addresses) {
    Gpu& gpu = gpus.emplace_back();
    gpu.index = index;
    gpu.name = names[index];
    gpu.pci = pci_address(pci);
  }
  return gpus;
}

bool find_by_rocm_smi(const System& system, Gpus* gpus) {
  if (system.program("rocm-smi").empty()) return false;
  std::string text =
      system.run({"rocm-smi", "--showproductname", "--showbus", "--showdriverversion"}).value_or("");
  gpus->list = listed(rocm_values(text, "card series"), rocm_values(text, "pci bus"));
  gpus->source = "rocm-smi";
  std::string driver = value_of(text, "Driver version:");
  if (!driver.empty()) gpus->driver = driver;
  return !gpus->list.empty();
}

// As the amdgpu driver tells: counts where the GPU's memory controllers (UMC) look for errors, else which of
// its blocks do. Those of an MI300A are the processor's.
void find_ecc(const System& system, const std::string& device, Gpu* gpu) {
  std::string counts;
  for (const char* file : {"/ras/umc_err_count", "/ras/aca_umc"})
    if (counts.empty()) counts = system.read(device + file).value_or("");
  auto count = [&](const char* key) { return std::strtoull(value_of(counts, key).c_str(), nullptr, 10); };
  gpu->uncorrected = count("ue:");
  gpu->corrected = count("ce:");
  std::string mask = value_of(system.first_line(device + "/ras/features"), "feature mask:");
  constexpr unsigned long long memory_controllers = 1;
  unsigned long long blocks = std::strtoull(mask.c_str(), nullptr, 16);
  if (!counts.empty() || blocks & memory_controllers)
    gpu->ecc = "Enabled";
  else if (!mask.empty())
    gpu->ecc = blocks ? "Host" : "Disabled";
}

// Blocks that start with "GPU: 0", among those of other devices, with lines "BDF: 0000:01:00.0" in one
// command and "MARKET_NAME: ..." in another.
bool find_by_amd_smi(const System& system, Gpus* gpus) {
  if (system.program("amd-smi").empty()) return false;
  auto values = [&](const Words& command, const std::string& key) {
    std::map<int, std::string> found;
    int index = -1;
    for (const std::string& line : lines_of(system.run(command).value_or(""))) {
      const std::string words = trimmed(line), value = words.substr(words.rfind(' ') + 1);
      // Old versions do not indent what is in a block.
      bool heading = !line.empty() && line[0] != ' ' && !value.empty() &&
                     value.find_first_not_of("0123456789") == std::string::npos;
      if (heading) index = words.rfind("GPU:", 0) == 0 ? std::atoi(value.c_str()) : -1;
      if (index >= 0 && words.rfind(key, 0) == 0) found.emplace(index, trimmed(words.substr(key.size())));
    }
    return found;
  };
  gpus->list =
      listed(values({"amd-smi", "static", "--asic"}, "MARKET_NAME:"), values({"amd-smi", "list"}, "BDF:"));
  gpus->source = "amd-smi";
  return !gpus->list.empty();
}

// Where neither tool is: the kernel knows no names of products.
bool find_by_kernel(const std::vector<device::KfdGpu>& known, Gpus* gpus) {
  for (const device::KfdGpu& gpu : known) {
    Gpu& found = gpus->list.emplace_back();
    found.index = static_cast<int>(gpus->list.size()) - 1;
    found.name = "AMD " + gpu.target;
    found.pci = gpu.pci;
  }
  gpus->source = "the kernel";
  return !gpus->list.empty();
}

// ROCm's version is in a file of its prefix: that of the library which the loader finds, ROCM_PATH, the usual
// one. If it is not of the library's release, the library's name tells that.
std::string rocm_version(const System& system) {
  const std::string library = driver_library(system, Vendor::amd);
  const size_t number = library.find(".so.");
  const std::string major = number == std::string::npos ? "" : library.substr(number + 4);
  const std::string release = major.substr(0, major.find('.'));
  for (const std::string& prefix : {std::filesystem::path(library).parent_path().parent_path().string(),
                                    system.variable("ROCM_PATH"), std::string("/opt/rocm")}) {
    const std::string version = prefix.empty() ? "" : system.first_line(prefix + "/.info/version");
    if (!version.empty() && (release.empty() || version.rfind(release + ".", 0) == 0)) return version;
  }
  return release;
}

bool find_amd(const System& system, Gpus* gpus) {
  const std::vector<device::KfdGpu> known = kfd_gpus(system);
  gpus->driver = system.first_line("/sys/module/amdgpu/version");
  if (!find_by_rocm_smi(system, gpus) && !find_by_amd_smi(system, gpus) && !find_by_kernel(known, gpus))
    return false;
  gpus->vendor = Vendor::amd;
  gpus->runtime = rocm_version(system);
  for (Gpu& gpu : gpus->list) {
    if (const device::KfdGpu* same = device::kfd_gpu_at(known, gpu.pci)) gpu.target = same->target;
    std::string device = "/sys/bus/pci/devices/" + gpu.pci;
    gpu.memory = std::strtoull(system.first_line(device + "/mem_info_vram_total").c_str(), nullptr, 10);
    gpu.bar = std::strtoull(system.first_line(device + "/mem_info_vis_vram_total").c_str(), nullptr, 10);
    gpu.numa = numa_node(system, gpu.pci);
    find_ecc(system, device, &gpu);
  }
  return true;
}

int on_bus(const System& system, Vendor* vendor) {
  std::map<std::string, int> found;
  for (const std::string& pci : system.list("/sys/bus/pci/devices"))
    ++found[device::vendor_of_gpu(system.first_line("/sys/bus/pci/devices/" + pci + "/modalias"))];
  for (Vendor each : {Vendor::nvidia, Vendor::amd})
    if (const int count = found[to_string(each)]) return *vendor = each, count;
  *vendor = Vendor::none;
  return 0;
}

}  // namespace

const char* to_string(Vendor vendor) {
  return vendor == Vendor::nvidia ? "NVIDIA" : vendor == Vendor::amd ? "AMD" : "none";
}

std::string driver_library(const System& system, Vendor vendor) {
  if (vendor == Vendor::nvidia) return system.library("libcuda.so.1");
  for (const char* name : device::hip_library_names)
    if (const std::string path = system.library(name); !path.empty()) return path;
  return {};
}

std::vector<device::KfdGpu> kfd_gpus(const System& system) {
  const std::string other = system.variable("FAIRLEAD_KFD_TOPOLOGY");
  return device::read_kfd_topology(other.empty() ? "/sys/class/kfd/kfd/topology" : other,
                                   {[&](const std::string& path) { return system.read(path).value_or(""); },
                                    [&](const std::string& folder) { return system.list(folder); }});
}

Gpus find_gpus(const System& system) {
  Gpus gpus;
  Vendor by_bus = Vendor::none;
  gpus.on_bus = on_bus(system, &by_bus);
  if (!find_nvidia(system, &gpus) && !find_amd(system, &gpus)) gpus.vendor = by_bus;
  return gpus;
}

std::string Gpus::summary() const {
  if (list.empty())
    return vendor == Vendor::none
               ? "no GPU"
               : fmt::format("{} {} GPU{}", on_bus, to_string(vendor), on_bus == 1 ? "" : "s");
  std::string text;
  for (size_t i = 0; i < list.size();) {
    size_t count =
        std::count_if(list.begin(), list.end(), [&](const Gpu& gpu) { return gpu.name == list[i].name; });
    if (std::any_of(list.begin(), list.begin() + i,
                    [&](const Gpu& gpu) { return gpu.name == list[i].name; })) {
      ++i;
      continue;
    }
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count,
                        list[i].name.empty() ? "GPU" : list[i].name);
    ++i;
  }
  return text;
}

}  // namespace fairlead::tools::doctor
