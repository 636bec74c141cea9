// SPDX-License-Identifier: Apache-2.0

#include "doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "common/command_line.h"
#include "common/provenance.h"
#include "doctor/report.h"
#include "options/options.h"
#include "run/job_check.h"

namespace fairlead::tools {
namespace doctor {
namespace {

const std::vector<Area>& all_areas() {
  static const std::vector<Area> areas = {
      {"MPI", mpi_checks()},    {"Transport", transport_checks()}, {"GPUs", gpu_checks()},
      {"Links", link_checks()}, {"Limits", limit_checks()},        {"Environment", environment_checks()},
      {"Live", live_checks()},
  };
  return areas;
}

Machine examine(const System& system, const DoctorArguments& arguments) {
  Mpi mpi = find_mpi(system, arguments.program, arguments.mpi);
  Ucx ucx = find_ucx(system, mpi);
  Machine machine{system, std::move(mpi), find_gpus(system), std::move(ucx), {}, arguments.preload};
  LiveRequest request;
  request.wanted = arguments.launch;
  request.preload = arguments.preload;
  request.sim = arguments.sim;
  machine.live = try_ranks(system, machine.mpi, request);
  machine.live.simulated = std::max(1, request.sim);
  return machine;
}

std::string name_of(const Mpi& mpi) {
  if (!mpi.found()) return "no MPI";
  return mpi.name + (mpi.version.empty() ? "" : " " + mpi.version);
}

// Does a device pointer reach its end? As far as it was tried.
bool proven(const Report& report) {
  for (const Row& row : report.rows)
    if (std::string(row.check->key) == "live.send")
      return row.applies && row.finding.verdict != Verdict::fail && row.finding.verdict != Verdict::skip;
  return false;
}

std::string conclude(const Machine& machine, const Report& report) {
  if (!machine.mpi.found()) return "There is no MPI to examine.";
  Awareness aware = awareness(machine);
  std::string itself =
      !aware.known ? fmt::format("It is not known whether {} is GPU-aware itself.", name_of(machine.mpi))
      : handles_gpus(machine)
          ? fmt::format("{} was built to handle device memory itself.", name_of(machine.mpi))
          : fmt::format("{} is not GPU-aware itself.", name_of(machine.mpi));
  if (!machine.live.started()) return itself + fmt::format(" Nothing was tried ({}).", machine.live.why_not);
  if (!machine.live.both("device")) return itself + " No device memory could be tried.";
  if (!why_simulated(machine).empty())
    return itself + " The GPUs of this machine cannot be used (live.device).";
  std::string where = report.simulated ? " (on simulated GPUs)" : "";
  if (machine.preload)
    return itself +
           (proven(report)
                ? fmt::format(" With Fairlead device pointers work here{}: fairlead run -n N ./program",
                              where)
                : fmt::format(" With Fairlead device pointers do not work here{}.", where));
  return itself +
         (proven(report)
              ? fmt::format(" Device pointers work without Fairlead{}.", where)
              : fmt::format(" Device pointers do not work without Fairlead{}: fairlead run -n N ./program",
                            where));
}

Provenance provenance_of(const Machine& machine, const Report& report) {
  Provenance provenance;
  provenance.mpi_abi = machine.mpi.abi;
  provenance.mpi_library = machine.mpi.name;
  provenance.mpi_version = machine.mpi.version;
  provenance.ranks = static_cast<int>(machine.live.ranks.size());
  provenance.nodes = machine.live.ranks.empty() ? 0 : 1;
  const Gpus& gpus = machine.gpus;
  if (report.simulated)
    provenance.gpus = {"sim", machine.live.simulated, {}, {}};
  else
    provenance.gpus = {gpus.list.empty()            ? "none"
                       : gpus.vendor == Vendor::amd ? "rocm"
                                                    : "cuda",
                       static_cast<int>(gpus.list.size()), gpus.list.empty() ? "" : gpus.list.front().name,
                       gpus.driver};
  return provenance;
}

Report judge(const Machine& machine) {
  Report report;
  std::string host = machine.system.live() ? host_name() : "recorded machine";
  report.subject = fmt::format("fairlead doctor {}: {}, {}, {}", FAIRLEAD_VERSION, host, name_of(machine.mpi),
                               machine.gpus.summary());
  for (const Area& area : all_areas())
    for (const Check& check : area.checks) {
      bool applies = check.applies(machine);
      report.rows.push_back(
          {&area, &check, applies,
           applies ? check.find(machine) : skip(fmt::format("applies to {} only", check.when))});
    }
  report.simulated = machine.live.fact("device", 0).find("simulated") != std::string::npos;
  report.conclusion = conclude(machine, report);
  report.provenance = provenance_of(machine, report);
  report.adapters = adapters_of_gpus(machine);
  return report;
}

}  // namespace
}  // namespace doctor

void define_doctor(CLI::App& app, DoctorArguments& arguments) {
  auto program =
      app.add_option("PROGRAM", arguments.program,
                     "Examine the MPI that this program is linked with. Default: the MPI of mpicc and mpirun "
                     "on PATH. `fairlead doctor options` prints the same as `fairlead options`.")
          ->type_name("PROGRAM")
          ->check(suggested({"@program", "options"}));
  app.add_option("--mpi", arguments.mpi,
                 "Examine this MPI: the path of its mpicc, mpirun or libmpi.so.*; or openmpi, mpich or abi, "
                 "for the MPI of that ABI that the loader finds.")
      ->type_name("MPI")
      ->check(suggested({"openmpi", "mpich", "abi", "@file"}))
      ->excludes(program);
  app.add_flag("-v,--verbose", arguments.verbose, "Also show details, and checks that do not apply here.");
  auto json = app.add_flag("--json", arguments.json, "Print JSON.");
  app.add_flag_callback(
      "--no-preload", [&arguments] { arguments.preload = false; }, "Examine the MPI without Fairlead.");
  app.add_flag_callback(
      "--no-launch", [&arguments] { arguments.launch = false; }, "Start no ranks: examine only.");
  app.add_option("--sim", arguments.sim, "Let the ranks use N simulated GPUs instead of real ones.")
      ->type_name("N")
      ->check(whole_number(1, 64));
  auto from =
      app.add_option("--from", arguments.from, "Examine a recorded machine: a folder that --record wrote.")
          ->type_name("FOLDER");
  app.add_option("--record", arguments.record,
                 "Record this machine in a new folder, which --from examines elsewhere. The folder gets what "
                 "tools print about MPI, GPUs and limits, and the environment variables that concern these.")
      ->type_name("FOLDER")
      ->excludes(from);
  app.add_flag("--markdown", arguments.markdown, "Print the table of all checks for docs/tools/doctor.md.")
      ->excludes(json);
  set_up(app, "[options] [PROGRAM]",
         "  fairlead doctor\n  fairlead doctor ./my_mpi_program\n  fairlead doctor --mpi "
         "/opt/openmpi/bin/mpicc\n"
         "  fairlead doctor --no-preload --json\n"
         "  fairlead doctor options");
}

int doctor_command(const Words& words) {
  using namespace doctor;
  if (!words.empty() && words.front() == "options")
    return options_command(Words(words.begin() + 1, words.end()));
  CLI::App app(
      "Find out whether an MPI is GPU-aware, and if not, why and what to do. This examines the MPI, its "
      "network libraries, GPUs, links, limits and environment, and lets two ranks exchange messages. The "
      "exit code is 1 if a check fails.",
      "fairlead doctor");
  DoctorArguments arguments;
  define_doctor(app, arguments);
  if (!parse(app, words)) return exit_success;
  if (arguments.markdown) {
    std::cout << as_markdown(all_areas());
    return exit_success;
  }
  if (arguments.launch && arguments.from.empty())
    refuse_in_ranks("start it once (Slurm: srun -N 1 -n 1), or give --no-launch");
  std::unique_ptr<System> system = arguments.from.empty() ? this_system() : recorded_system(arguments.from);
  if (!arguments.record.empty()) system = recording_system(std::move(system), arguments.record);
  Report report = judge(examine(*system, arguments));
  Paper paper = paper_of_stdout();
  paper.verbose = arguments.verbose;
  if (arguments.json)
    std::cout << as_json(report).dump(2) << "\n";
  else
    std::cout << as_text(report, paper);
  return report.count(Verdict::fail) > 0 ? exit_problem : exit_success;
}

}  // namespace fairlead::tools
