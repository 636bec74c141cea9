// SPDX-License-Identifier: Apache-2.0

#include "bench/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "base/launched_job.h"
#include "base/said.h"
#include "bench/report.h"
#include "common/command_line.h"
#include "common/places.h"
#include "common/process.h"
#include "common/terminal.h"
#include "run/job_check.h"
#include "run/launcher.h"
#include "run/program.h"

namespace fairlead::tools {
namespace {

// What --mpi asks for: an ABI, or a launcher.
struct AskedMpi {
  std::string abi;  // "" where that is open
  std::optional<Launcher> launcher;

  explicit AskedMpi(const std::string& text) {
    if (text.empty() || is_mpi_abi(text)) {
      abi = text;
      return;
    }
    launcher = launcher_named(text);
    if (!launcher->kind->abis.empty()) abi = launcher->kind->abis.front();
  }

  // One may name the launcher, the other the ABI.
  static AskedMpi both(const std::string& of_run, const std::string& of_bench) {
    AskedMpi run(of_run), bench(of_bench);
    if ((run.launcher && bench.launcher && run.launcher->path != bench.launcher->path) ||
        (!run.abi.empty() && !bench.abi.empty() && run.abi != bench.abi))
      throw usage(fmt::format("run --mpi {} and bench --mpi {} disagree", of_run, of_bench));
    if (run.abi.empty()) run.abi = bench.abi;
    if (!run.launcher) run.launcher = bench.launcher;
    return run;
  }
};

bool finds_mpi(const std::string& abi) {
  return !inspect_program(bench_program(abi)).mpi_library.empty();
}

// Where nothing else decides: an MPI that the loader finds, else that of the launcher on PATH.
std::string usual_abi(const std::vector<std::string>& built) {
  for (const std::string& abi : built)
    if (finds_mpi(abi)) return abi;
  if (const auto launcher = first_launcher_on_path())
    for (const std::string& abi : built)
      if (starts(*launcher, abi)) return abi;
  return built.front();
}

// The benchmark program for the MPI that was asked for, else for that of the job, else the usual one.
std::string choose_abi(const std::string& asked, const std::string& of_job) {
  std::vector<std::string> built = bench_abis();
  if (built.empty()) {
    std::string wrong = home_remedy("libexec/fairlead/bench-*");
    throw usage(!wrong.empty() ? wrong
                               : fmt::format("no benchmark programs (libexec/fairlead/bench-*) belong to {}; "
                                             "build Fairlead with an MPI, or set FAIRLEAD_HOME",
                                             own_path()));
  }
  std::string abi = !asked.empty() ? asked : !of_job.empty() ? of_job : usual_abi(built);
  if (std::find(built.begin(), built.end(), abi) == built.end())
    throw usage(fmt::format("this Fairlead was built without MPI {}; it has: {}; {}", abi,
                            fmt::join(built, ", "), what_adds(abi)));
  return abi;
}

Words rank_command(const std::string& abi, const Words& words) {
  Words command = {bench_program(abi)};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

// The benchmark programs were built with an MPI that need not be the launcher's, nor be found by the loader.
// Where that cannot take its place, since its library bears another name, one of the ranks says so. Returns
// what LD_LIBRARY_PATH is for it, "" where it stays as it is.
std::string load_library_of(const AskedMpi& asked, const std::string& abi, bool speaks = true) {
  const Program program = inspect_program(bench_program(abi));
  if (!asked.launcher && !program.mpi_library.empty()) return {};
  const MpiBeside beside = mpi_beside(asked.launcher ? *asked.launcher : find_launcher(abi, ""), program);
  if (!beside.folders.empty()) setenv("LD_LIBRARY_PATH", beside.folders.c_str(), 1);
  if (auto other = other_mpi(program.mpi_library, beside.other); other && speaks)
    say(fmt::format("fairlead bench: messages go {}; {}", other->fact, other->remedy));
  return beside.folders;
}

// Throws a cannot_run Failure where the MPI has not what the benchmark needs. Ranks find that, too; but their
// launcher adds lines about their exit codes.
void require_mpi(const std::string& abi, const BenchArguments& arguments) {
  Captured asked = capture({bench_program(abi), "--check", arguments.kind->name}, Stderr::drop);
  if (asked.status == exit_cannot_run) throw cannot_run(asked.output.substr(0, asked.output.find('\n')));
}

// NCCL carries the messages, MPI only the handshake, from host memory.
bool wants_preload(const BenchArguments& arguments) {
  return arguments.preload && arguments.via != "nccl";
}

// For this process, and all that it starts.
void take_gpus(const BenchArguments& arguments) {
  if (!arguments.device.empty()) setenv("FAIRLEAD_DEVICE", arguments.device.c_str(), 1);
  if (arguments.sim > 0) setenv("FAIRLEAD_SIM_DEVICES", std::to_string(arguments.sim).c_str(), 1);
  // Ranks that are only bound by their GPUs measure nothing of these: simulated ones deserve no warning.
  if (!arguments.needs_device()) said_before("simulation");
}

// By row of benchmark_kinds; null where ranks measure.
constexpr int (*runs[])(const BenchArguments&) = {
#define FAIRLEAD_IN_RANKS(...) nullptr,
#define FAIRLEAD_ALONE(id, name, ranks, run, ...) run,
#include "bench/options/benchmarks.def"
};

// The MPI of the launcher; of a scheduler's the first that finds its other ranks here.
std::string abi_of(const Job& job) {
  if (!job.abi.empty()) return job.abi;
  for (const std::string& abi : bench_abis())
    if (judge_launcher(inspect_program(bench_program(abi)), abi).mistake.empty()) return abi;
  return {};
}

BindingArguments binding_of(const BenchArguments& arguments) {
  CLI::App app;
  BindingArguments binding;
  define_binding(app, binding);
  parse(app, arguments.binding);
  check_binding(binding);
  return binding;
}

int become_rank(const BenchArguments& arguments, const Job& job, const Words& words) {
  const AskedMpi asked(arguments.mpi);
  std::string abi = choose_abi(asked.abi, abi_of(job));
  load_library_of(asked, abi, job.rank <= 0);
  if (const Launched launched = judge_launcher(inspect_program(bench_program(abi)), abi);
      !launched.mistake.empty())
    throw usage(launched.mistake);
  if (const Words binding = to_words(binding_of(arguments)); !binding.empty()) {
    Words line = {own_path(), "exec", "--mpi", abi};
    if (!wants_preload(arguments)) line.push_back("--no-preload");
    for (const Words& part : {binding, rank_command(abi, words)})
      line.insert(line.end(), part.begin(), part.end());
    become(line);
  }
  std::string preload = preload_with(wants_preload(arguments) ? preload_library(abi) : "");
  if (preload.empty())
    unsetenv("LD_PRELOAD");
  else
    setenv("LD_PRELOAD", preload.c_str(), 1);
  become(rank_command(abi, words));
}

}  // namespace

int bench_command(const Words& words) {
  if (words.empty()) throw usage(fmt::format("no benchmark given; accepted: {}", benchmark_names()));
  if (words.front() == "-V" || words.front() == "--version") {
    std::cout << "fairlead " FAIRLEAD_VERSION "\n";
    return exit_success;
  }
  if (words.front() == "-h" || words.front() == "--help") {
    std::cout << "Usage: fairlead bench NAME [options]\n";
    std::string group;
    for (const BenchmarkKind& kind : benchmark_kinds) {
      const bool begins = group != group_of(kind);
      group = group_of(kind);
      if (begins) std::cout << fmt::format("\n{}:\n", group);
      // What a collective measures its name says.
      if (begins && kind.names_collective())
        std::cout << fmt::format("  {}\n", wrapped_for_stdout(names_in(group), 2));
      if (!kind.names_collective())
        std::cout << fmt::format("  {:<19}{}\n", kind.name, wrapped_for_stdout(kind.summary, 21));
    }
    std::cout << "\n`fairlead bench NAME --help` describes one. Options follow the OSU "
                 "suite.\n\nExample: fairlead bench latency -m 8:1m -c D D\n";
    return exit_success;
  }
  if (words.front() == "--help-man") {
    std::cout << bench_manual();
    return exit_success;
  }
  auto arguments = parse_bench(words.front(), Words(words.begin() + 1, words.end()));
  if (!arguments) return exit_success;
  take_gpus(*arguments);
  auto job = job_from_environment();
  if (arguments->kind->uses_mpi && job) return become_rank(*arguments, *job, words);
  if (job && job->size > 1)
    throw usage(
        fmt::format("{} starts its own ranks and cannot run in a job; call it directly", words.front()));
  if (arguments->kind->uses_mpi) check_ranks(*arguments, arguments->ranks);
  check_json_target(arguments->json);
  if (!arguments->kind->uses_mpi || !ranks_may_be_elsewhere()) require_gpu(*arguments);
  if (auto run = runs[arguments->kind - benchmark_kinds]) return run(*arguments);

  RunArguments run;
  run.ranks = arguments->ranks;
  run.binding = binding_of(*arguments);
  const AskedMpi asked(arguments->mpi);
  const std::string abi = choose_abi(asked.abi, "");
  run.mpi = asked.launcher ? asked.launcher->path : abi;
  run.library_path = load_library_of(asked, abi);
  require_mpi(abi, *arguments);
  run.device = arguments->device;
  run.preload = wants_preload(*arguments);
  run.is_benchmark = true;
  return launch(run, rank_command(abi, words));
}

int matrix_command(const Words& words) {
  Words bench = {"matrix"};
  bench.insert(bench.end(), words.begin(), words.end());
  return bench_command(bench);
}

Words bench_for_ranks(const Words& program, RunArguments& run) {
  if (program.size() < 3 || program[1] != "bench")
    throw usage("of fairlead's own commands only `fairlead bench NAME` can be run in ranks");
  Words words(program.begin() + 2, program.end());
  auto arguments = parse_bench(words.front(), Words(words.begin() + 1, words.end()));
  if (!arguments) std::exit(exit_success);  // its help was printed
  if (!arguments->kind->uses_mpi)
    throw usage(
        fmt::format("{} starts its own ranks and cannot run in a job; call it directly", words.front()));
  check_ranks(*arguments, run.ranks);
  const AskedMpi asked = AskedMpi::both(run.mpi, arguments->mpi);
  const std::string abi = choose_abi(asked.abi, "");
  run.library_path = load_library_of(asked, abi);
  run.mpi = asked.launcher ? asked.launcher->path : abi;
  run.is_benchmark = true;
  take_gpus(*arguments);
  if (!run.dry_run && !ranks_may_be_elsewhere(run)) {
    if (run.sim == 0) require_gpu(*arguments);
    require_mpi(abi, *arguments);
  }
  run.device = arguments->device;
  if (!arguments->binding.empty()) run.binding = binding_of(*arguments);
  run.preload = run.preload && wants_preload(*arguments);
  return rank_command(abi, words);
}

}  // namespace fairlead::tools
