// SPDX-License-Identifier: Apache-2.0
//
// Tables of GPU against GPU as nvidia-smi, rocm-smi and amd-smi print them.

#pragma once

#include <string>
#include <vector>

namespace fairlead::tools::doctor {

struct Matrix {
  std::vector<std::vector<std::string>> rows;  // without their labels
  std::vector<std::string> lines;              // as printed, the header first

  std::string at(size_t row, size_t column) const {
    return row < rows.size() && column < rows[row].size() ? rows[row][column] : "";
  }
};

// The table behind the first line that holds `title` in any case, or behind the start for "": a line of
// column labels (GPU0 ..., or PCI addresses), then one row for each GPU, which begins with its label.
Matrix read_matrix(const std::string& text, const std::string& title);

}  // namespace fairlead::tools::doctor
