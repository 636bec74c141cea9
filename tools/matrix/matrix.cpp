// SPDX-License-Identifier: Apache-2.0

#include "matrix/matrix.h"

#include <fairlead/device.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "bench/bench.h"
#include "bench/device_copy.h"
#include "common/files.h"
#include "common/process.h"
#include "common/provenance.h"
#include "doctor/link_table.h"
#include "plot/plot.h"
#include "run/binding.h"

namespace fairlead::tools {
namespace {

using namespace matrix;

// By PCI address: the vendors' tools number GPUs of their own, whatever this process sees.
Grid<std::string> links_of(const std::vector<GpuPlace>& gpus) {
  auto system = doctor::this_system();
  doctor::Gpus listed = doctor::find_gpus(*system);
  Grid<std::string> links(gpus.size());
  if (listed.list.empty()) return links;
  doctor::LinkTable table = doctor::link_table(*system, listed);
  auto row_of = [&](const GpuPlace& gpu) {
    auto found = std::find_if(listed.list.begin(), listed.list.end(),
                              [&](const doctor::Gpu& each) { return each.pci == gpu.pci; });
    return static_cast<size_t>(found - listed.list.begin());
  };
  for (size_t from = 0; from < gpus.size(); ++from)
    for (size_t to = 0; to < gpus.size(); ++to)
      if (from != to) links.at(from, to) = table.at(row_of(gpus[from]), row_of(gpus[to]));
  return links;
}

Advice advice_from(const std::vector<Way>& ways, size_t gpus) {
  for (const Way& way : ways) {
    if (!way.why_not.empty()) continue;
    Grid<double> gb_s(gpus);
    for (size_t from = 0; from < gpus; ++from)
      for (size_t to = 0; to < gpus; ++to)
        if (const auto& found = way.pairs.at(from, to).one_way_mb_s) gb_s.at(from, to) = found->p50 / 1e3;
    return advise(gb_s, way.name.starts_with("mpi")      ? "messages"
                        : way.name.starts_with("engine") ? "the driver's copy"
                                                         : "kernels");
  }
  throw cannot_run(fmt::format("nothing could be measured: {}", ways.front().why_not));
}

// Found out before anything is measured, which takes minutes.
PlotArguments picture_of(const BenchArguments& arguments) {
  PlotArguments plot;
  plot.output = arguments.output;
  std::string kind = std::filesystem::path(arguments.output).extension();
  if (kind != ".png" && kind != ".svg" && kind != ".pdf")
    throw usage(
        fmt::format("--output: '{}' is not accepted; accepted: a name that ends in .png, .svg or .pdf",
                    arguments.output));
  drawing_command(plot);  // throws
  if (const std::string python = drawing_python(plot); !python_runs(python, "import matplotlib"))
    throw cannot_run(fmt::format(
        "--output: {} has no matplotlib, which draws; install it: apt install python3-matplotlib, or python3 "
        "-m pip install "
        "matplotlib; or leave -o out and draw elsewhere what --json wrote: fairlead plot FILE -o FILE.png",
        python));
  return plot;
}

void draw(PlotArguments plot, const Json& json) {
  TemporaryFile file("fairlead-matrix");
  write_json(file.path(), json);
  plot.files = {file.path()};
  if (int status = capture(drawing_command(plot), Stderr::pass).status; status != 0)
    throw Failure(status == exit_cannot_run ? exit_cannot_run : exit_problem,
                  fmt::format("--output: drawing {} failed with exit code {}", plot.output, status));
}

Way measure(const BenchArguments& arguments, const std::string& name, size_t gpus, Json* about) {
  Json apart;
  if (name == "mpi") return measure_messages(arguments, name, gpus, about);
  if (name == "engine" || name == "kernel") return measure_copies(arguments, name, gpus);
  if (runtime_with_devices(arguments)->name() != std::string_view("rocm")) {
    Way way{name, name, Grid<PairValues>(gpus), "only AMD's driver can be told to copy by kernels", "", ""};
    return way;
  }
  return name == "mpi-blit" ? measure_messages(arguments, name, gpus, &apart)
                            : measure_copies_elsewhere(arguments, name, gpus);
}

}  // namespace

int matrix_benchmark(const BenchArguments& asked) {
  const BenchArguments arguments = with_usual_sizes(asked);
  std::optional<PlotArguments> plot;
  if (!arguments.output.empty()) plot = picture_of(arguments);
  if (is_map(arguments.map))
    throw usage(
        fmt::format("--map: {0} is a map, and this option names the file to write one to; accepted: a name "
                    "as gpus.map, or ./{0}",
                    arguments.map));
  if (!arguments.map.empty()) check_file_target("--map", arguments.map);
  if (!arguments.output.empty()) check_file_target("--output", arguments.output);
  const bool simulated = std::string_view(runtime_with_devices(arguments)->name()) == "sim";

  Findings findings;
  Topology topology = read_topology();
  findings.gpus = topology.gpus;
  const size_t gpus = findings.gpus.size();
  if (gpus < 2) throw cannot_run("this process sees one GPU, and a pair needs two; --sim 4 simulates four");
  for (const GpuPlace& gpu : findings.gpus) {
    findings.names.push_back(fairlead_device_name(gpu.ordinal));
    findings.numa.push_back(topology.numa_of(gpu.near));
  }
  findings.links = links_of(findings.gpus);

  // Messages first: ranks find the GPUs as yet unused by this process.
  Json about;
  Context context{.ranks = static_cast<int>(gpus)};
  for (const std::string& name : all_matrix_ways) {
    if (std::find(arguments.ways.begin(), arguments.ways.end(), name) == arguments.ways.end()) continue;
    if (isatty(2))
      std::fprintf(stderr, "fairlead matrix: measuring %zu pairs by %s\n", gpus * (gpus - 1) / 2,
                   name.c_str());
    findings.ways.push_back(measure(arguments, name, gpus, &about));
  }
  findings.advice = advice_from(findings.ways, gpus);

  bool valid = true;
  NoiseWatch noise(arguments);
  const int64_t measurements = arguments.iterations >= 0 ? arguments.iterations : trial_steps;
  for (const Way& way : findings.ways)
    for (size_t from = 0; from < gpus; ++from)
      for (size_t to = 0; to < gpus; ++to) {
        const PairValues& values = way.pairs.at(from, to);
        valid = valid && values.valid;
        for (const auto* found : {&values.latency_us, &values.one_way_mb_s, &values.both_ways_mb_s})
          if (*found) noise.look(fmt::format("{} from {} to {}", way.name, from, to), **found, measurements);
      }
  const std::string why_not = noise.why_no_advice();
  if (simulated)
    findings.advice.words =
        "These GPUs are simulated: their timings are not valid, so there is no recommendation.";
  else if (!why_not.empty())
    findings.advice.words = fmt::format("No recommendation: {}.", why_not);
  const bool writes_map = !arguments.map.empty() && (why_not.empty() || arguments.anyway);
  if (arguments.json != "-") print(arguments, findings, writes_map);
  noise.warn();
  Json json = to_json(arguments, context, findings);
  if (about.is_object()) {
    for (const char* key : {"mpi", "preloaded"}) json[key] = about[key];
    json[provenance_key]["mpi"] = about[provenance_key]["mpi"];
  }
  if (!arguments.json.empty()) write_json(arguments.json, json);
  if (writes_map) write_map(arguments, findings);
  if (plot) draw(*plot, json);
  if (!arguments.map.empty() && !writes_map && valid)
    throw cannot_run(fmt::format("--map: {} is not written: {}; --anyway writes it", arguments.map, why_not));
  return valid ? exit_success : exit_problem;
}

}  // namespace fairlead::tools
