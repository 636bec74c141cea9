// SPDX-License-Identifier: Apache-2.0
//
// What a JSON report has measured, as figures that can be compared: those of `bench`, `matrix`, and the
// statistics of a job.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compare/significance.h"

namespace fairlead::tools {

struct Figure {
  std::string row;   // "bytes 8", "MPI_Send peer copies"
  std::string name;  // "latency_us", in the words of the file
  double value = 0;
  Samples samples{};  // none where the file has only the value
  bool more_is_better() const;
};

struct RunFile {
  std::string file;
  std::string what;  // "latency", "statistics"
  nlohmann::ordered_json json;
  std::vector<Figure> figures{};
  std::string origin{};  // date and host; "" if they are unknown
  bool complete = true, valid = true;
};

// Throws a usage Failure for a file that has no figures.
RunFile read_run(const std::string& file);

// Settings and origin of the two runs that differ, as "options.FAIRLEAD_IPC: off, then on".
std::vector<std::string> what_differs(const RunFile& one, const RunFile& other);

}  // namespace fairlead::tools
