// SPDX-License-Identifier: Apache-2.0
//
// Which devices of the PCI bus are GPUs that compute, by what the kernel says of them (modalias), whether or
// not a driver is loaded.

#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

namespace fairlead::device {

// "NVIDIA" or "AMD"; "" for other devices. "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00" has vendor
// and class: displays and 3D controllers of NVIDIA, accelerators and controllers of AMD, but not the display
// of its processors.
inline const char* vendor_of_gpu(std::string_view modalias) {
  auto has = [&](std::string_view part) { return modalias.find(part) != std::string_view::npos; };
  const bool controller = has("bc03sc02") || has("bc03sc80") || has("bc12sc00");
  if (has("v000010DE") && (controller || has("bc03sc00"))) return "NVIDIA";
  return has("v00001002") && controller ? "AMD" : "";
}

// What to say where no GPU can be used: "2 NVIDIA GPUs are on the PCI bus, but cannot be used", or that there
// is none.
inline std::string words_for_unusable_gpus() {
  std::map<std::string, int> gpus;
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator("/sys/bus/pci/devices", error)) {
    std::string modalias;
    std::getline(std::ifstream(device.path() / "modalias"), modalias);
    if (const std::string vendor = vendor_of_gpu(modalias); !vendor.empty()) ++gpus[vendor];
  }
  if (gpus.empty()) return "no GPU here";
  const auto& [vendor, count] = *gpus.rbegin();
  return std::to_string(count) + " " + vendor +
         (count == 1 ? " GPU is on the PCI bus, but cannot" : " GPUs are on the PCI bus, but cannot") +
         " be used";
}

}  // namespace fairlead::device
