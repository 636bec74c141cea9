// SPDX-License-Identifier: Apache-2.0

#include "doctor/link_table.h"

#include <fmt/format.h>

#include <cstdlib>

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

const char* description(const std::string& cell) {
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

bool is_hops(const std::string& cell) {
  return cell.size() > 3 && cell.compare(cell.size() - 3, 3, "HOP") == 0;
}

std::string cell_of(const device::KfdLink& link) {
  switch (link.kind) {
    case device::KfdLinkKind::package:
      return "PKG";
    case device::KfdLinkKind::xgmi:
      if (link.hops > 1) return fmt::format("{}HOP", link.hops);
      return link.links ? fmt::format("XGMI{}", link.links) : "XGMI";
    default:
      return "PCIE";
  }
}

// The kernel's word, where it describes all of them: it tells links and hops, which the tools do not.
LinkTable table_by_kernel(const System& system, const Gpus& gpus) {
  const std::vector<device::KfdGpu> known = kfd_gpus(system);
  LinkTable table;
  std::string header = "      ";
  for (const Gpu& gpu : gpus.list) header += fmt::format(" {:<6}", fmt::format("GPU{}", gpu.index));
  table.lines.push_back(header);
  for (const Gpu& from : gpus.list) {
    std::vector<std::string> row;
    std::string line = fmt::format("{:<6}", fmt::format("GPU{}", from.index));
    for (const Gpu& to : gpus.list) {
      const device::KfdGpu *here = device::kfd_gpu_at(known, from.pci),
                           *there = device::kfd_gpu_at(known, to.pci);
      if (!here || !there) return {};
      row.push_back(here == there ? "0" : cell_of(here->link_to(*there)));
      line += fmt::format(" {:<6}", row.back());
    }
    table.rows.push_back(row);
    table.lines.push_back(line);
  }
  return table;
}

}  // namespace

LinkTable link_table(const System& system, const Gpus& gpus) {
  if (gpus.vendor == Vendor::amd)
    if (LinkTable table = table_by_kernel(system, gpus); !table.rows.empty()) return table;
  if (gpus.vendor == Vendor::nvidia)
    return read_link_table(system.run({"nvidia-smi", "topo", "-m"}).value_or(""), "");
  if (gpus.source == "rocm-smi")
    return read_link_table(system.run({"rocm-smi", "--showtopotype"}).value_or(""), "link type");
  return read_link_table(system.run({"amd-smi", "topology", "--link-type"}).value_or(""), "link type");
}

LinkKind link_kind(const std::string& cell) {
  if (cell.rfind("NV", 0) == 0 || cell.rfind("XGMI", 0) == 0 || cell == "PKG" || is_hops(cell))
    return LinkKind::fast;
  return cell == "SYS" || cell == "NODE" ? LinkKind::socket : LinkKind::bridged;
}

std::string link_in_words(const std::string& cell) {
  if (cell.rfind("NV", 0) == 0) return fmt::format("NVLink ({} links)", cell.substr(2));
  if (cell == "XGMI") return "xGMI";
  if (cell.rfind("XGMI", 0) == 0)
    return fmt::format("xGMI ({} link{})", cell.substr(4), cell == "XGMI1" ? "" : "s");
  if (is_hops(cell)) return fmt::format("xGMI, by {} hops", std::atoi(cell.c_str()));
  if (cell == "PKG") return "their package";
  std::string words = description(cell);
  return words.empty() ? cell : fmt::format("{} ({})", words, cell);
}

}  // namespace fairlead::tools::doctor
