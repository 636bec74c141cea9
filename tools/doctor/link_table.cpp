// SPDX-License-Identifier: Apache-2.0

#include "doctor/link_table.h"

#include <fmt/format.h>

namespace fairlead::tools::doctor {
namespace {

// nvidia-smi underlines its header, even in files.
std::string without_escapes(const std::string& line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033')
      while (i < line.size() && line[i] != 'm') ++i;
    else
      plain += line[i];
  }
  return plain;
}

bool is_gpu_label(const std::string& word) {
  if (word.rfind("GPU", 0) == 0 && word.size() > 3)
    return word.find_first_not_of("0123456789", 3) == std::string::npos;
  return word.size() == 12 && word[4] == ':' && word[7] == ':' && word[10] == '.';
}

const char* in_words(const std::string& cell) {
  if (cell == "PIX" || cell == "PXB") return "PCIe, by a switch";
  if (cell == "PHB") return "PCIe, by the host bridge";
  if (cell == "NODE") return "PCIe, between host bridges of a NUMA node";
  if (cell == "SYS") return "PCIe, between CPU sockets";
  if (cell == "PCIE") return "PCIe";
  return "";
}

// The table behind the first line that holds `title` in any case, or behind the start for "": a line of
// column labels (GPU0 ..., or PCI addresses), then one row for each GPU, which begins with its label.
LinkTable read_link_table(const std::string& text, const std::string& title) {
  LinkTable table;
  bool begun = title.empty();
  for (const std::string& raw : lines_of(text)) {
    std::string line = without_escapes(raw);
    if (!begun) {
      begun = holds(lower(line), title);
      continue;
    }
    Words words = split(line);
    bool labelled = !words.empty() && is_gpu_label(words.front());
    bool header = labelled && table.lines.empty();
    if (!labelled && !table.rows.empty()) break;
    if (!labelled) continue;
    table.lines.push_back(line);
    if (!header) table.rows.emplace_back(words.begin() + 1, words.end());
  }
  return table;
}

}  // namespace

LinkTable link_table(const System& system, const Gpus& gpus) {
  if (gpus.vendor == Vendor::nvidia)
    return read_link_table(system.run({"nvidia-smi", "topo", "-m"}).value_or(""), "");
  if (gpus.source == "rocm-smi")
    return read_link_table(system.run({"rocm-smi", "--showtopotype"}).value_or(""), "link type");
  return read_link_table(system.run({"amd-smi", "topology", "--link-type"}).value_or(""), "link type");
}

LinkKind link_kind(const std::string& cell) {
  if (cell.rfind("NV", 0) == 0 || cell == "XGMI") return LinkKind::fast;
  return cell == "SYS" || cell == "NODE" ? LinkKind::socket : LinkKind::bridged;
}

std::string link_in_words(const std::string& cell) {
  if (cell.rfind("NV", 0) == 0) return fmt::format("NVLink ({} links)", cell.substr(2));
  if (cell == "XGMI") return "xGMI";
  std::string words = in_words(cell);
  return words.empty() ? cell : fmt::format("{} ({})", words, cell);
}

}  // namespace fairlead::tools::doctor
