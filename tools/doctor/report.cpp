// SPDX-License-Identifier: Apache-2.0

#include "doctor/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/terminal.h"

namespace fairlead::tools::doctor {
namespace {

constexpr size_t key_width = 15, indent = 2 + 5 + key_width + 1;

const char* colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "\033[32m";
    case Verdict::warn:
      return "\033[33m";
    case Verdict::fail:
      return "\033[31m";
    default:
      return "\033[2m";
  }
}

std::string coloured(const std::string& text, const char* colour, const Paper& paper) {
  return paper.colour ? colour + text + "\033[0m" : text;
}

std::string row_text(const Row& row, const Paper& paper) {
  std::string verdict = to_string(row.finding.verdict);
  std::string text = "  " + coloured(verdict, colour_of(row.finding.verdict), paper) +
                     std::string(5 - verdict.size(), ' ') + fmt::format("{:<{}} ", row.check->key, key_width);
  const std::string margin(indent, ' '), further(indent + 2, ' ');
  text += wrapped(row.finding.fact, indent, margin, paper.columns) + "\n";
  if (!row.finding.remedy.empty())
    text += margin + "> " + wrapped(row.finding.remedy, indent + 2, further, paper.columns) + "\n";
  if (paper.verbose)
    for (const std::string& line : row.finding.details)
      text += margin + wrapped(line, indent, further, paper.columns) + "\n";
  return text;
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warn:
      return "warn";
    case Verdict::fail:
      return "fail";
    default:
      return "skip";
  }
}

int Report::count(Verdict verdict) const {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), [&](const Row& row) {
    return row.applies && row.finding.verdict == verdict;
  }));
}

Paper paper_of_stdout() {
  Paper paper;
  paper.columns = text_columns(STDOUT_FILENO);
  if (!isatty(STDOUT_FILENO)) return paper;
  const char* plain = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  paper.colour = !(plain && *plain) && terminal && std::string(terminal) != "dumb";
  return paper;
}

std::string as_text(const Report& report, const Paper& paper) {
  std::string text = wrapped("# " + report.subject, 0, "  ", paper.columns) + "\n";
  if (report.simulated) text += "# The Live checks use simulated GPUs: they do not test real ones\n";
  const Area* area = nullptr;
  int left_out = 0;
  for (const Row& row : report.rows) {
    if (!row.applies) ++left_out;
    if (!row.applies && !paper.verbose) continue;
    if (row.area != area) text += "\n" + coloured(row.area->name, "\033[1m", paper) + "\n";
    area = row.area;
    text += row_text(row, paper);
  }
  text += fmt::format("\n{} ok, {} warn, {} fail, {} skip", report.count(Verdict::ok),
                      report.count(Verdict::warn), report.count(Verdict::fail), report.count(Verdict::skip));
  if (left_out)
    text += fmt::format("; {} more do not apply here{}", left_out, paper.verbose ? "" : " (-v shows them)");
  return text + "\n" + wrapped(report.conclusion, 0, "", paper.columns) + "\n";
}

nlohmann::ordered_json as_json(const Report& report) {
  auto checks = nlohmann::ordered_json::array();
  for (const Row& row : report.rows)
    checks.push_back({{"key", row.check->key},
                      {"area", row.area->name},
                      {"what", row.check->what},
                      {"when", row.check->when},
                      {"applies", row.applies},
                      {"verdict", to_string(row.finding.verdict)},
                      {"fact", row.finding.fact},
                      {"remedy", row.finding.remedy},
                      {"details", row.finding.details}});
  auto adapters = nlohmann::ordered_json::array();
  for (const GpuAdapters& gpu : report.adapters) {
    auto names = nlohmann::ordered_json::array();
    for (const Adapter& adapter : gpu.near.list) names.push_back(adapter.text());
    adapters.push_back({{"gpu", gpu.gpu}, {"adapters", names}, {"distance", to_string(gpu.near.distance)}});
  }
  return {{"version", FAIRLEAD_VERSION},
          {"subject", report.subject},
          {"simulated", report.simulated},
          {"conclusion", report.conclusion},
          {"ok", report.count(Verdict::ok)},
          {"warn", report.count(Verdict::warn)},
          {"fail", report.count(Verdict::fail)},
          {"skip", report.count(Verdict::skip)},
          {"checks", checks},
          {"adapters", adapters},
          {provenance_key, to_json(report.provenance)}};
}

std::string as_markdown(const std::vector<Area>& areas) {
  std::string text = "| Check | What it looks at | What to do |\n| --- | --- | --- |\n";
  for (const Area& area : areas)
    for (const Check& check : area.checks)
      text += fmt::format("| `{}` | {} | {} |\n", check.key, check.what, check.remedy);
  return text;
}

}  // namespace fairlead::tools::doctor
