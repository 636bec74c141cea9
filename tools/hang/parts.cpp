// SPDX-License-Identifier: Apache-2.0

#include "hang/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <vector>

#include "base/output_file.h"
#include "common/terminal.h"
#include "flight/report.h"
#include "hang/hang.h"
#include "observe/part.h"
#include "run/run.h"

namespace fairlead::tools {
namespace {

using observe::Part;

// Does the file hold what another job of this run has written? Each job removes it when it starts.
bool is_taken(const std::string& file, bool after_others) {
  std::error_code error;
  return file.empty() || (after_others && std::filesystem::is_regular_file(file, error) &&
                          std::filesystem::file_size(file, error) > 0);
}

// Parts of one job.
std::string join(const std::vector<Part>& parts, const RunArguments& arguments, uint64_t end,
                 bool after_others) {
  observe::Report report = observe::joined(parts, end);
  std::string words = " until the job ended";
  if (!report.missing->empty()) words += ", without " + flight::words_for_ranks(*report.missing);
  report.whose = fmt::format("{} of {} ranks{}", parts.size(), parts.front().ranks, words);
  if (arguments.stats) std::cerr << as_table(report, RecordOfRun::name_of) << std::flush;
  auto tell = [](const char* what, const std::string& file, const std::string& why) {
    if (!why.empty()) say(fmt::format("fairlead run: the {} cannot be written to {}: {}", what, file, why));
  };
  if (const std::string& file = arguments.stats_file; !is_taken(file, after_others))
    tell("statistics", file, write_file(file, as_json(report, observe::Provenance(), RecordOfRun::name_of)));
  if (const std::string& file = arguments.trace; !is_taken(file, after_others))
    tell("trace", file, write_joined_trace(parts, file, RecordOfRun::name_of));
  return words;
}

}  // namespace

std::string join_parts(const RecordOfRun& record, const RunArguments& arguments) {
  if (!arguments.stats && arguments.stats_file.empty() && arguments.trace.empty()) return "";
  const uint64_t end = observe::now();
  auto [parts, after_others] = observe::parts_in(record.parts(), end);
  std::string words;
  // A script may have started several jobs: the last one's files stay.
  for (auto begin = parts.begin(), next = begin; begin != parts.end(); begin = next) {
    next = std::find_if(begin, parts.end(), [begin](const Part& part) { return part.job != begin->job; });
    const std::string of_job =
        join({std::make_move_iterator(begin), std::make_move_iterator(next)}, arguments, end, after_others);
    if (!of_job.empty()) words = of_job;
  }
  return words;
}

}  // namespace fairlead::tools
