// SPDX-License-Identifier: Apache-2.0

#include "run/job_report.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "common/failure.h"
#include "common/files.h"
#include "common/provenance.h"
#include "run/run.h"

namespace fairlead::tools {

namespace fs = std::filesystem;

JobReport::JobReport(const std::string& file)
    : file_(fs::absolute(file).string()), folder_(file_ + ".ranks"), started_(utc_date()) {
  if (file == "-") throw usage("--json: stdout is the program's; accepted: a file");
  check_file_target("--json", file);
  std::error_code error;
  if (!fs::create_directory(folder_, error))
    throw usage(
        fmt::format("--json: the ranks are to leave their part in {}: {}; remove it, or name another file",
                    folder_, error ? error.message() : "exists already"));
}

JobReport::~JobReport() {
  std::error_code error;
  fs::remove_all(folder_, error);
}

void JobReport::write(const RunArguments& arguments, const Words& line, const std::string& abi,
                      int exit_code) const {
  std::map<int, nlohmann::ordered_json> of_ranks;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    std::ifstream part(entry.path());
    auto json = nlohmann::ordered_json::parse(part, nullptr, false);
    for (const char* name : {"rank", "task"})
      if (json.contains(name)) of_ranks[json[name].get<int>()] = json;
  }
  auto binding = nlohmann::ordered_json::array();
  for (const auto& [rank, json] : of_ranks) binding.push_back(json);
  Provenance provenance;
  provenance.mpi_abi = abi;
  provenance.ranks = arguments.ranks;
  write_json(file_, {{"schema", 1},
                     {"fairlead", FAIRLEAD_VERSION},
                     {"command", line},
                     {"mpi", abi},
                     {"preloaded", arguments.preload},
                     {"started", started_},
                     {"ended", utc_date()},
                     {"exit_code", exit_code},
                     {"ranks", arguments.ranks},
                     {"binding", binding},
                     {provenance_key, to_json(provenance)}});
}

}  // namespace fairlead::tools
