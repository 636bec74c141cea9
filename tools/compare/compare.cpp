// SPDX-License-Identifier: Apache-2.0

#include "compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "common/command_line.h"
#include "compare/figures.h"

namespace fairlead::tools {
namespace {

// Of a hundred figures that are alike, one seems to differ.
constexpr double significance_level = 0.01;

struct Row {
  const Figure *before, *after;
  Comparison compared;

  Row(const Figure* before, const Figure* after)
      : before(before), after(after), compared(mann_whitney(before->samples, after->samples)) {}
  // Infinite from 0.
  double change() const {
    const double by = after->value - before->value;
    if (by == 0) return 0;
    return before->value != 0 ? by / std::abs(before->value) : std::copysign(HUGE_VAL, by);
  }
  double worse_by() const { return before->more_is_better() ? -change() : change(); }
  // The ranks of the values and the figure may disagree: a mean with a few that are large.
  bool significant() const { return compared.p < significance_level && compared.direction * change() > 0; }
  const char* verdict() const {
    if (before->samples.empty() || after->samples.empty()) return "not tested";
    if (compared.least >= significance_level) return "of too few values";
    if (!significant()) return "same";
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
          ""};
}

const Figure* find(const std::vector<Figure>& figures, const Figure& like) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& figure) {
    return figure.row == like.row && figure.name == like.name;
  });
  return found == figures.end() ? nullptr : &*found;
}

std::string heading(const char* letter, const RunFile& run) {
  std::string text =
      fmt::format("# {}: {}, {}\n", letter, run.file,
                  run.origin.empty() ? "without provenance: an older Fairlead wrote it" : run.origin);
  if (!run.complete) text += fmt::format("# {} is not complete\n", letter);
  if (!run.valid) text += fmt::format("# {} received wrong bytes\n", letter);
  return text;
}

std::string number(double value) {
  return std::abs(value) < 1e5 || std::abs(value) >= 1e15 ? fmt::format("{:.4g}", value)
                                                          : fmt::format("{:.0f}", value);
}

std::string percent(double change) {
  return std::isinf(change)       ? "from 0"
         : std::abs(change) < 1e6 ? fmt::format("{:+.1f} %", 100 * change)
                                  : fmt::format("{:+.1e} %", 100 * change);
}

void print(const std::vector<Row>& rows) {
  constexpr auto line = "{:<{}}  {:<{}} {:>10} {:>10} {:>10}  {}\n";
  size_t names = 4, figures = 6;
  for (const Row& row : rows) {
    names = std::max(names, row.before->row.size());
    figures = std::max(figures, row.before->name.size());
  }
  std::cout << fmt::format(line, "# Of", names, "Figure", figures, "A", "B", "Change", "B is");
  for (const Row& row : rows)
    std::cout << fmt::format(line, row.before->row, names, row.before->name, figures,
                             number(row.before->value), number(row.after->value), percent(row.change()),
                             row.verdict());
}

// How many figures only one of the runs has.
size_t print_rest(const char* letter, const RunFile& run, const RunFile& other) {
  size_t left_out = 0;
  for (const Figure& figure : run.figures) left_out += find(other.figures, figure) == nullptr;
  if (left_out > 0)
    std::cout << fmt::format("# only in {}: {} figure{}\n", letter, left_out, left_out == 1 ? "" : "s");
  return left_out;
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
         "significant, or if B is not complete, lacks a figure of A or received wrong bytes.")
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
    if (const Figure* other = find(after.figures, figure)) rows.emplace_back(&figure, other);
  if (rows.empty()) throw usage(fmt::format("{} and {} have no figure in common", before.file, after.file));

  std::cout << heading("A", before) << heading("B", after);
  for (const std::string& difference : what_differs(before, after))
    std::cout << fmt::format("# differs: {}\n", difference);
  print(rows);
  const bool lacks_any = print_rest("A", before, after) > 0;
  print_rest("B", after, before);
  const bool fails_for_any = !arguments.fail_above.empty();
  const double limit = arguments.fail_above.empty() ? 0 : std::stod(arguments.fail_above) / 100;
  const Row* worst = nullptr;
  size_t worse = 0;
  for (const Row& row : rows) {
    if (!row.significant() || row.worse_by() <= limit) continue;
    ++worse;
    if (!worst || row.worse_by() > worst->worse_by()) worst = &row;
  }
  if (!worst) {
    std::cout << fmt::format("# no figure is significantly worse{}\n",
                             !fails_for_any ? "" : fmt::format(" by more than {:g} %", 100 * limit));
    return fails_for_any && (lacks_any || !after.complete || !after.valid) ? exit_problem : exit_success;
  }
  std::cout << fmt::format("# {} of {} figures {} significantly worse{}, the worst by {}: {} of {}\n", worse,
                           rows.size(), worse == 1 ? "is" : "are",
                           !fails_for_any ? "" : fmt::format(" by more than {:g} %", 100 * limit),
                           percent(worst->worse_by()).substr(std::isinf(worst->worse_by()) ? 0 : 1),
                           worst->before->name, worst->before->row);
  return fails_for_any ? exit_problem : exit_success;
}

}  // namespace fairlead::tools
