// SPDX-License-Identifier: Apache-2.0
//
// The results, as text and as JSON.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/provenance.h"
#include "doctor/check.h"

namespace fairlead::tools::doctor {

struct Row {
  const Area* area;
  const Check* check;
  bool applies;
  Finding finding;
};

struct Report {
  std::string subject;     // "node7: Open MPI 4.1.4, 2 x NVIDIA H200"
  std::string conclusion;  // one or two sentences
  bool simulated = false;  // the ranks of the live checks got simulated GPUs
  Provenance provenance;
  std::vector<Row> rows;
  std::vector<GpuAdapters> adapters;  // empty where there is no adapter

  int count(Verdict verdict) const;
};

struct Paper {
  size_t columns = 80;
  bool colour = false;
  bool verbose = false;
};
// For stdout: a terminal's width, and colour on a terminal only (not with NO_COLOR).
Paper paper_of_stdout();

std::string as_text(const Report& report, const Paper& paper);
nlohmann::ordered_json as_json(const Report& report);
// The table of docs/tools/doctor.md.
std::string as_markdown(const std::vector<Area>& areas);

}  // namespace fairlead::tools::doctor
