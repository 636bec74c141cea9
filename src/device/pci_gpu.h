// SPDX-License-Identifier: Apache-2.0
//
// Which devices of the PCI bus are GPUs that compute, by what the kernel says of them (modalias), whether or
// not a driver is loaded.

#pragma once

#include <string_view>

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

}  // namespace fairlead::device
