// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/fabric_domain.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "device/cuda_hip/abi.h"

namespace fairlead::device {
namespace {

// The part of NVML's binary interface that is used here. Version 3 of the information begins with version 2,
// which is that of the first drivers with fabric handles.
using NvmlDevice = struct OpaqueNvmlDevice*;
struct NvmlFabricInfo {
  unsigned version;
  unsigned char cluster[16];
  int status;  // why the registration failed, if that is completed
  unsigned clique;
  unsigned char state;
  unsigned health;
  unsigned char health_summary;
};
constexpr size_t bytes_of_version_2 = offsetof(NvmlFabricInfo, health_summary);
static_assert(bytes_of_version_2 == 36 && sizeof(NvmlFabricInfo) == 40);
constexpr unsigned version_of(unsigned number, size_t bytes) {
  return static_cast<unsigned>(bytes) | number << 24;
}
constexpr unsigned char state_completed = 3;
constexpr int nvml_success = 0;

struct Nvml {
  DriverFunction<int()> init{"nvmlInit_v2"};
  DriverFunction<int(const char*, NvmlDevice*)> device_by_pci{"nvmlDeviceGetHandleByPciBusId_v2"};
  DriverFunction<int(NvmlDevice, NvmlFabricInfo*)> fabric_info{"nvmlDeviceGetGpuFabricInfoV"};
  std::string why_not;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      why_not = dlerror();
    else if (!init.bind(library) || !device_by_pci.bind(library) || !fabric_info.bind(library))
      why_not = std::string("NVML has no ") + fabric_info.symbol;
    else if (const int result = init(); result != nvml_success)
      why_not = std::string(init.symbol) + " returned " + std::to_string(result);
  }
};

std::string in_words(const NvmlFabricInfo& info) {
  std::string text = "state " + std::to_string(info.state) + ", status " + std::to_string(info.status) +
                     ", clique " + std::to_string(info.clique) + ", cluster ";
  char digits[3];
  for (const unsigned char byte : info.cluster) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

}  // namespace

std::string find_fabric_domain(const char* pci, FabricDomain* domain) {
  static const Nvml& nvml = *new Nvml;  // lives as long as the process, like its library
  if (!nvml.why_not.empty()) return nvml.why_not;
  NvmlDevice device = nullptr;
  int result = nvml.device_by_pci(pci, &device);
  if (result != nvml_success)
    return std::string(nvml.device_by_pci.symbol) + " returned " + std::to_string(result);
  NvmlFabricInfo info{};
  for (const unsigned version : {version_of(3, sizeof(NvmlFabricInfo)), version_of(2, bytes_of_version_2)}) {
    info = {};
    info.version = version;
    result = nvml.fabric_info(device, &info);
    if (result == nvml_success) break;
  }
  if (result != nvml_success)
    return std::string(nvml.fabric_info.symbol) + " returned " + std::to_string(result);
  FabricDomain found{{}, info.clique};
  std::memcpy(found.cluster, info.cluster, sizeof found.cluster);
  if (info.state != state_completed || info.status != nvml_success || !found)
    return "the GPU belongs to no NVLink domain of several nodes: " + in_words(info);
  *domain = found;
  return {};
}

}  // namespace fairlead::device
