// SPDX-License-Identifier: Apache-2.0

#include "plot/plot.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/command_line.h"
#include "common/places.h"
#include "common/process.h"

namespace fairlead::tools {

namespace {

constexpr const char* accepted_files =
    "what `fairlead bench NAME --json FILE`, `fairlead matrix --json FILE` or `fairlead run --stats-file "
    "FILE` wrote, a trace of `fairlead run --trace FILE`, what `fairlead bench pairs` prints, and files of "
    "ghost_exchange";

constexpr const char* summary =
    "Draw the results of benchmarks against message size, as medians: latency, bandwidth, message rate, or "
    "the time and bus bandwidth of a collective. Several files are drawn side by side, with their ratios to "
    "the first.";

}  // namespace

void define_plot(CLI::App& app, PlotArguments& arguments) {
  app.add_option(
      "FILE", arguments.files,
      "Files of one benchmark: what `fairlead bench NAME --json FILE` or `fairlead bench pairs` wrote. "
      "Files of copy may stand beside those of latency or bw. Or one file alone: a trace (`fairlead run "
      "--trace FILE`), drawn as a time-line, what `fairlead run --stats-file FILE` wrote, as bars, or what "
      "`fairlead matrix --json FILE` wrote, as heat maps; .png, .svg or .pdf. Or what "
      "examples/ghost_exchange wrote.");
  auto output =
      app.add_option("-o,--output", arguments.output,
                     "The picture to write: .png, .svg, .pdf, or .html, a page with the values as tables.")
          ->type_name("FILE");
  app.add_flag("--terminal", arguments.terminal, "Draw in the terminal instead.")->excludes(output);
  app.add_option(
         "--label", arguments.labels,
         "Name of a run in the legend, for each file in their order. Default: its MPI, with or without "
         "Fairlead.")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option(
         "--quantity", arguments.quantities,
         "What to draw, where the benchmark has several: latency, bandwidth, rate (messages a second), time, "
         "busbw or overlap; of matrix bandwidth, both or latency; may be repeated.")
      ->type_name("NAME")
      ->check(suggested({"latency", "bandwidth", "rate", "time", "busbw", "overlap", "both"}))
      ->allow_extra_args(false);
  app.add_option("--time", arguments.time,
                 "Draw only the part of a trace from BEGIN to END after its start, in us, ms or s.")
      ->type_name("BEGIN:END");
  set_up(app, "FILE... -o FILE | --terminal [options]",
         "  fairlead plot latency.json other.json -o latency.png\n"
         "  fairlead plot allreduce.json --terminal\n"
         "  fairlead plot bw.json --quantity rate -o rate.html\n"
         "  fairlead plot pairs.txt -o pairs.svg\n"
         "  fairlead plot statistics.json -o statistics.pdf\n"
         "  fairlead plot job.json --time 1.2s:1.25s -o exchange.png");
}

bool python_runs(const std::string& python, const std::string& statements) {
  // -c looks for modules in the current folder first, where others may have put some.
  return capture({python, "-c", "import sys; sys.path[:] = filter(None, sys.path); " + statements},
                 Stderr::drop)
             .status == 0;
}

std::string drawing_python(const PlotArguments& arguments) {
  const std::string library = arguments.terminal ? "plotext" : "matplotlib";
  std::string first;
  for (const std::string& python : {find_on_path("python3"), std::string("/usr/bin/python3")}) {
    if (!is_executable(python)) continue;
    if (first.empty()) first = python;
    if (python_runs(python,
                    fmt::format("import importlib.util as u; sys.exit(not u.find_spec('{}'))", library)))
      return python;
  }
  if (first.empty())
    throw cannot_run("no python3 on PATH, which draws; install it: apt install python3 python3-matplotlib");
  return first;
}

Words drawing_command(const PlotArguments& arguments) {
  std::string drawing = drawing_program();
  nlohmann::ordered_json request = {{"files", arguments.files},           {"labels", arguments.labels},
                                    {"quantities", arguments.quantities}, {"time", arguments.time},
                                    {"output", arguments.output},         {"terminal", arguments.terminal}};
  // -B: Fairlead's folders are not for caches of Python.
  return {drawing_python(arguments), "-B", drawing,
          request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

int plot_command(const Words& words) {
  CLI::App app(summary, "fairlead plot");
  PlotArguments arguments;
  define_plot(app, arguments);
  if (!parse(app, words)) return exit_success;
  if (arguments.files.empty()) throw usage(fmt::format("no file given; accepted: {}", accepted_files));
  for (const std::string& file : arguments.files)
    if (std::error_code error; !std::filesystem::exists(file, error))
      throw usage(fmt::format("cannot read {}: there is no such file", file));
  if (arguments.output.empty() && !arguments.terminal)
    throw usage(
        "no output given; accepted: -o FILE.png, -o FILE.svg, -o FILE.pdf, -o FILE.html or --terminal");

  become(drawing_command(arguments));
}

}  // namespace fairlead::tools
