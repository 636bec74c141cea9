// SPDX-License-Identifier: Apache-2.0

#include "compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "common/command_line.h"
#include "common/provenance.h"
#include "compare/figures.h"

namespace fairlead::tools {
namespace {

// Of a hundred figures that are alike, one seems to differ.
constexpr double significance_level = 0.01;

struct Row {
  const Figure *before, *after;

  double change() const {
    return before->value == 0 ? 0 : (after->value - before->value) / std::abs(before->value);
  }
  double worse_by() const { return before->more_is_better() ? -change() : change(); }
  bool tested() const { return !before->samples.empty() && !after->samples.empty(); }
  bool significant() const {
    return tested() && mann_whitney(before->samples, after->samples) < significance_level;
  }
  const char* verdict() const {
    if (!tested()) return "not tested";
    if (!significant() || change() == 0) return "same";
    return worse_by() > 0 ? "worse" : "better";
  }
};

// In percent: "5%", "2.5".
CLI::Validator percentage() {
  return {[](std::string& text) {
            size_t end = 0;
            double value = -1;
            try {
              value = std::stod(text, &end);
            } catch (const std::exception&) {
            }
            const bool good =
                value >= 0 && std::isfinite(value) && (text.substr(end).empty() || text.substr(end) == "%");
            return good ? "" : text + "; accepted: a percentage, as 5%";
          },
          "PERCENT"};
}

const Figure* find(const std::vector<Figure>& figures, const Figure& like) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& figure) {
    return figure.row == like.row && figure.name == like.name;
  });
  return found == figures.end() ? nullptr : &*found;
}

std::string heading(const char* letter, const RunFile& run) {
  const auto provenance = run.json.value(provenance_key, nlohmann::ordered_json::object());
  const std::string origin = provenance.empty() ? "without provenance: an older Fairlead wrote it"
                                                : fmt::format("{} on {}", provenance.value("date", "?"),
                                                              provenance.value("host", "?"));
  return fmt::format("# {}: {}, {}\n", letter, run.file, origin);
}

std::string number(double value) {
  return std::abs(value) < 1e5 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

void print(const std::vector<Row>& rows) {
  size_t names = 3, figures = 6;
  for (const Row& row : rows) {
    names = std::max(names, row.before->row.size());
    figures = std::max(figures, row.before->name.size());
  }
  std::cout << fmt::format("{:<{}}  {:<{}} {:>10} {:>10} {:>9}  {}\n", "# Of", names, "Figure", figures, "A",
                           "B", "Change", "B is");
  for (const Row& row : rows)
    std::cout << fmt::format("{:<{}}  {:<{}} {:>10} {:>10} {:>7}  {}\n", row.before->row, names,
                             row.before->name, figures, number(row.before->value), number(row.after->value),
                             fmt::format("{:+.1f} %", 100 * row.change()), row.verdict());
}

// What only one of the runs has.
void print_rest(const char* letter, const RunFile& run, const RunFile& other) {
  size_t left_out = 0;
  for (const Figure& figure : run.figures) left_out += find(other.figures, figure) == nullptr;
  if (left_out > 0) std::cout << fmt::format("# only in {}: {} figures\n", letter, left_out);
}

}  // namespace

void define_compare(CLI::App& app, CompareArguments& arguments) {
  for (auto [name, file] : {std::pair("A", &arguments.before), {"B", &arguments.after}})
    app.add_option(
           name, *file,
           "A report that `fairlead bench NAME --json FILE`, `fairlead matrix --json FILE` or `fairlead run "
           "--stats-file FILE` wrote.")
        ->type_name("FILE")
        ->required();
  app.add_option(
         "--fail-above", arguments.fail_above,
         "Exit code 1 if a figure of B is worse than that of A by more than this, and the difference is "
         "significant.")
      ->type_name("PERCENT")
      ->check(percentage());
  set_up(
      app, "[options] A B",
      "  fairlead compare before.json after.json\n  fairlead compare --fail-above 5% main.json branch.json");
}

int compare_command(const Words& words) {
  CLI::App app(
      "Compare two runs of one benchmark, or the statistics of two jobs: what differs between them, then "
      "each figure "
      "of both, the change, and whether it is significant (Mann-Whitney U test, p < 0.01, of the medians of "
      "batches "
      "or of the histograms in the files).",
      "fairlead compare");
  CompareArguments arguments;
  define_compare(app, arguments);
  if (!parse(app, words)) return exit_success;
  const RunFile before = read_run(arguments.before), after = read_run(arguments.after);
  if (before.what != after.what)
    throw usage(fmt::format("{} is of {}, and {} of {}", before.file, before.what, after.file, after.what));
  std::vector<Row> rows;
  for (const Figure& figure : before.figures)
    if (const Figure* other = find(after.figures, figure)) rows.push_back({&figure, other});
  if (rows.empty()) throw usage(fmt::format("{} and {} have no figure in common", before.file, after.file));

  std::cout << heading("A", before) << heading("B", after);
  for (const std::string& difference : what_differs(before, after))
    std::cout << fmt::format("# differs: {}\n", difference);
  print(rows);
  print_rest("A", before, after);
  print_rest("B", after, before);
  const double limit = arguments.fail_above.empty() ? 0 : std::stod(arguments.fail_above) / 100;
  const Row* worst = nullptr;
  size_t worse = 0;
  for (const Row& row : rows) {
    if (!row.significant() || row.worse_by() <= limit) continue;
    ++worse;
    if (!worst || row.worse_by() > worst->worse_by()) worst = &row;
  }
  if (!worst) {
    std::cout << fmt::format(
        "# no figure is significantly worse{}\n",
        arguments.fail_above.empty() ? "" : fmt::format(" by more than {:g} %", 100 * limit));
    return exit_success;
  }
  std::cout << fmt::format(
      "# {} of {} figures {} significantly worse{}, the worst by {:.1f} %: {} of {}\n", worse, rows.size(),
      worse == 1 ? "is" : "are",
      arguments.fail_above.empty() ? "" : fmt::format(" by more than {:g} %", 100 * limit),
      100 * worst->worse_by(), worst->before->name, worst->before->row);
  return arguments.fail_above.empty() ? exit_success : exit_problem;
}

}  // namespace fairlead::tools
