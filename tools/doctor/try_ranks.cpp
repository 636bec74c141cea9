// SPDX-License-Identifier: Apache-2.0
//
// Starts the probe's two ranks and reads what they report.

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/failure.h"
#include "common/files.h"
#include "common/places.h"
#include "common/process.h"
#include "doctor/live.h"
#include "doctor/machine.h"
#include "doctor/probe/steps.h"
#include "run/program.h"
#include "run/run.h"

namespace fairlead::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr auto timeout_of_ranks = std::chrono::seconds(40);  // the ranks give up before

// A variable of this process for as long as the ranks are started.
class Set {
 public:
  Set(const char* name, const std::string& value) : name(name) {
    if (const char* now = std::getenv(name)) before = now;
    setenv(name, value.c_str(), 1);
  }
  ~Set() { before ? setenv(name, before->c_str(), 1) : unsetenv(name); }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

 private:
  const char* name;
  std::optional<std::string> before;
};

std::string content_of(const TemporaryFile& file) {
  std::ifstream stream(file.path());
  return {std::istreambuf_iterator<char>(stream), {}};
}

// {"rank": 0, "step": "ipc", "good": true, "fact": "..."}
bool read_step(const std::string& line, LiveReport* report) {
  size_t at = line.find(probe_mark);
  if (at == std::string::npos) return false;
  auto step = nlohmann::json::parse(line.substr(at + std::string(probe_mark).size()), nullptr, false);
  if (!step.is_object()) return false;
  report->ranks[step.value("rank", -1)][step.value("step", "")] = {step.value("good", false),
                                                                   step.value("fact", "")};
  return true;
}

void read_output(const std::string& output, LiveReport* report) {
  for (const std::string& line : lines_of(output)) {
    if (read_step(line, report)) continue;
    size_t at = line.find("info transports: ");
    if (at != std::string::npos) report->paths = line.substr(at + 17);
    if (!holds(line, " info ")) report->output += line + "\n";
  }
}

// The same ranks again, of two simulated nodes: Fairlead says who moves their messages. A rank of an MPI that
// claims to handle device memory and crashes on it has said so, too.
Words lines_between_nodes(const RunArguments& run, const Words& program) {
  Set nodes("FAIRLEAD_NODES", "2"), network("FAIRLEAD_NETWORK", "auto");
  const Captured captured = capture(launcher_line(run, program), Stderr::merge,
                                    {{"LD_PRELOAD", preload_with("")}}, timeout_of_ranks);
  Words lines;
  for (const std::string& line : lines_of(captured.output))
    for (const char* mark : {"host MPI claims ", "device messages between nodes are "})
      if (size_t at = line.find(mark); at != std::string::npos && holds(line, "fairlead ")) {
        lines.push_back(line.substr(at));
        break;
      }
  return lines;
}

}  // namespace

bool LiveReport::both(const std::string& step) const {
  return ranks.size() == 2 && std::all_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
           auto found = rank.second.find(step);
           return found != rank.second.end() && found->second.good;
         });
}

bool LiveReport::seen(const std::string& step) const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const auto& rank) { return rank.second.count(step) > 0; });
}

std::string LiveReport::fact(const std::string& step, int rank) const {
  auto found = ranks.find(rank);
  if (found == ranks.end()) return {};
  auto row = found->second.find(step);
  return row == found->second.end() ? "" : row->second.fact;
}

LiveReport try_ranks(const System& system, const Mpi& mpi, const LiveRequest& request) {
  LiveReport report;
  if (!request.wanted) report.why_not = "no ranks were started: --no-launch was given";
  if (!system.live()) report.why_not = "nothing can be started on a recorded machine";
  if (!mpi.found() || mpi.abi.empty()) report.why_not = "there is no MPI to start ranks of";
  if (!report.why_not.empty()) return report;
  std::string probe = probe_program(mpi.abi);
  if (probe.empty()) {
    report.why_not = fmt::format("this Fairlead was built without MPI {} (libexec/fairlead/probe-{}); {}",
                                 mpi.abi, mpi.abi, what_adds(mpi.abi));
    return report;
  }
  RunArguments run;
  run.ranks = 2;
  run.mpi = mpi.launcher_to_use.empty() ? mpi.abi : mpi.launcher_to_use;
  run.sim = request.sim;
  run.preload = request.preload;
  Set log("FAIRLEAD_LOG", "info");
  // Both ranks are to be on this node. Hydra's other ways to start them begin a step of the scheduler's,
  // which waits for the one that this process is in. Slurm tells of further nodes, and what it calls this
  // one.
  std::optional<Set> path, hydra, intel;
  if (ranks_may_be_elsewhere() && !std::getenv("HYDRA_BOOTSTRAP")) hydra.emplace("HYDRA_BOOTSTRAP", "fork");
  if (ranks_may_be_elsewhere() && !std::getenv("I_MPI_HYDRA_BOOTSTRAP"))
    intel.emplace("I_MPI_HYDRA_BOOTSTRAP", "fork");
  const char *node = std::getenv("SLURMD_NODENAME"), *nodes = std::getenv("SLURM_JOB_NUM_NODES");
  if (node && nodes && std::string(nodes) != "1") run.launcher_words.values["host"] = node;
  std::optional<TemporaryFile> reports;  // of the ranks
  try {
    reports.emplace("fairlead-doctor");
    const std::string folder = mpi.library.empty() ? "" : fs::path(mpi.library).parent_path().string();
    if (std::string folders = path_to_mpi_in(folder, inspect_program(probe)); !folders.empty())
      path.emplace("LD_LIBRARY_PATH", folders);
    report.command = launcher_line(run, {probe, reports->path()});
  } catch (const Failure& failure) {
    report.why_not = failure.what();
    return report;
  }
  // Without a hand-over the launcher itself would be preloaded, and Open MPI passes on only what it is told
  // to.
  Captured captured =
      capture(report.command, Stderr::merge, {{"LD_PRELOAD", preload_with("")}}, timeout_of_ranks);
  report.status = captured.status;
  report.timed_out = captured.status == timed_out;
  read_output(captured.output + content_of(*reports), &report);
  report.library = report.fact(step_library, 0);
  if (request.preload && report.both(step_device_device))
    report.between_nodes = lines_between_nodes(run, {probe, reports->path(), use_gpu_first});
  return report;
}

}  // namespace fairlead::tools::doctor
