// SPDX-License-Identifier: Apache-2.0
//
// What connects each pair of GPUs: for AMD's from the kernel's description, else from the tables that
// nvidia-smi, rocm-smi and amd-smi print.

#pragma once

#include <string>
#include <vector>

#include "doctor/machine.h"

namespace fairlead::tools::doctor {

struct LinkTable {
  std::vector<std::vector<std::string>> rows;  // without their labels; those of GPUs come first
  std::vector<std::string> lines;              // as printed, the header first

  std::string at(size_t row, size_t column) const {
    return row < rows.size() && column < rows[row].size() ? rows[row][column] : "";
  }
};

// The vendor's table, in the order of Gpus::list.
LinkTable link_table(const System& system, const Gpus& gpus);

// "NV18" of a table is an NVLink of 18, "XGMI4" an xGMI of 4, "2HOP" one by way of another GPU, "PKG" two
// partitions of one GPU; anything else crosses PCIe.
enum class LinkKind { fast, bridged, socket };
LinkKind link_kind(const std::string& cell);

// "NVLink (18 links)", "PCIe, by a switch (PIX)"
std::string link_in_words(const std::string& cell);

}  // namespace fairlead::tools::doctor
