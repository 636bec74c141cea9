// SPDX-License-Identifier: Apache-2.0
//
// `fairlead run`: finds the MPI a program is linked with, the launcher that belongs to it and the Fairlead
// library for its ABI, and runs that launcher. Everything is checked before anything starts.

#include "run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>

#include "base/output_file.h"
#include "bench/bench.h"
#include "common/command_line.h"
#include "common/files.h"
#include "common/places.h"
#include "common/process.h"
#include "common/terminal.h"
#include "hang/hang.h"
#include "hang/parts.h"
#include "run/gpu_aware.h"
#include "run/job_check.h"
#include "run/job_report.h"
#include "run/launcher.h"
#include "run/program.h"

extern char** environ;

namespace fairlead::tools {
namespace {

struct Plan {
  std::string abi;
  Launcher launcher;
  std::string folders;  // LD_LIBRARY_PATH of the ranks; "" for what it is
};

bool loads_mpi_later(const Program& program) {
  return program.kind == ProgramKind::script || program.kind == ProgramKind::interpreter;
}

// The MPI of a launcher that was named carries the messages, where its library can take the place of the
// program's; else one line says who does. A launcher that was found brings a library only if the program
// lacks one.
void take_library_beside(Plan& plan, bool named, Program& program) {
  const std::string linked = program.mpi_library;
  if (!named && !linked.empty()) return;
  const MpiBeside beside = mpi_beside(plan.launcher, program);
  plan.folders = beside.folders;
  if (!plan.folders.empty()) program = inspect_program(program.path, plan.folders);
  std::string why;
  if (!beside.other.empty() &&
      abi_of_library(std::filesystem::path(beside.other).filename().string()) != program.abi)
    why = fmt::format("not through {}, which has another ABI", beside.other);
  else if (!beside.other.empty())
    why = fmt::format(
        "not through {0}: the program asks for another name; link it with that library, or make a link: ln "
        "-s {0} FOLDER/{1}, and set LD_LIBRARY_PATH=FOLDER",
        beside.other, program.mpi_soname);
  else if (!plan.folders.empty() && !linked.empty() && program.mpi_library == linked)
    why = fmt::format(
        "not through that of {}: the program's RPATH precedes LD_LIBRARY_PATH; link it with "
        "-Wl,--enable-new-dtags",
        plan.launcher.path);
  if (!why.empty() && !program.mpi_library.empty())
    say(fmt::format("fairlead run: messages go through {}, {}", program.mpi_library, why));
}

Plan make_plan(Program& program, const Words& words, const RunArguments& arguments) {
  const std::string& mpi = arguments.mpi;
  // The MPI's own library may be beside the launcher.
  if (program.missing != program.mpi_soname || program.missing.empty()) require_loadable(program);
  Plan plan;
  std::optional<Launcher> given;
  if (is_mpi_abi(mpi))
    plan.abi = mpi;
  else if (!mpi.empty())
    given = launcher_named(mpi);
  if (!plan.abi.empty() && !program.abi.empty() && plan.abi != program.abi)
    throw usage(fmt::format("--mpi {}, but {} is linked with {} ({}); leave --mpi out or give --mpi {}",
                            plan.abi, program.path, program.abi, program.mpi_library, program.abi));
  if (plan.abi.empty()) plan.abi = program.abi;

  if (plan.abi.empty() && loads_mpi_later(program)) {
    if (!given) given = first_launcher_on_path();
    if (!given) {
      const std::string line = line_for_scheduler("ABI", arguments.ranks, words);
      throw usage(fmt::format("no MPI launcher on PATH to run {} with; {}", program.path,
                              line.empty()
                                  ? fmt::format("install one ({}), or give --mpi PATH", what_brings_mpi(""))
                                  : fmt::format("give the ABI of the MPI that it loads, --mpi {}; {}",
                                                fmt::join(mpi_abis, "|"), line)));
    }
    if (given->kind->abis.empty())
      throw usage(
          fmt::format("{} starts ranks of any MPI, and it is unknown which MPI {} loads; use: {} fairlead "
                      "exec --mpi ABI {}",
                      given->path, program.path, given->path, program.path));
    plan.abi = given->kind->abis.front();
  }
  if (plan.abi.empty())
    throw usage(
        fmt::format("{} is not linked with an MPI library; for a program that loads MPI later give --mpi {}",
                    program.path, fmt::join(mpi_abis, "|")));
  if (given && !starts(*given, plan.abi))
    throw usage(fmt::format(
        "{} is the launcher of {}, which has no library of the ABI {}, and {} is linked with {}; leave --mpi "
        "out, or name the launcher of an MPI that has one",
        given->path, given->kind->name, plan.abi, program.path,
        program.mpi_library.empty() ? program.mpi_soname : program.mpi_library));
  plan.launcher = given ? *given
                        : find_launcher(plan.abi, program.mpi_library,
                                        line_for_scheduler(plan.abi, arguments.ranks, words));
  if (arguments.library_path)
    plan.folders = *arguments.library_path;
  else
    take_library_beside(plan, given.has_value(), program);
  require_loadable(program);
  return plan;
}

// Open MPI hands to other nodes only what it is told to.
std::map<std::string, std::string> variables_for_ranks(const RunArguments& arguments) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    std::string text = *entry;
    size_t equals = text.find('=');
    if (text.rfind("FAIRLEAD_", 0) == 0 && equals != std::string::npos)
      variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : to_variables(arguments)) variables[name] = value;
  add_variables(arguments.launcher_words, &variables);
  return variables;
}

struct LaunchPlan {
  Words line;
  std::map<std::string, std::string> set_in_ranks;  // by `fairlead exec`, as far as this node tells
  int signals;                                      // of LauncherKind
  std::string abi;
  std::string doctor;  // the command that judges this MPI
};

// 0 where the exit code of a launcher tells of none.
int signal_of(int code, int signals) {
  int number = code > 128 ? code - 128 : signals == 0 ? code : 0;
  return number == SIGSEGV || number == SIGBUS || number == SIGABRT ? number : 0;
}

// An MPI that takes device memory for host memory ends in a memcpy, or the kernel refuses to copy for it and
// it gives up. Programs have other ways to get there, so this is said carefully.
void explain_death(int code, int signals, bool preloaded, const std::string& doctor) {
  int number = signal_of(code, signals);
  if (number == 0 || (number == SIGABRT && preloaded)) return;
  std::string words =
      fmt::format("fairlead run: {} signal {} ({})",
                  code == number ? "if this exit code is not the program's own, a rank was ended by"
                                 : "a rank was ended by",
                  number, strsignal(number));
  if (preloaded)
    words += fmt::format(
        ". Fairlead was loaded: if a device pointer is the cause, host code of the program used it, or it "
        "bypassed Fairlead; `{}` checks whether Fairlead is active in its ranks, and FAIRLEAD_LOG=info shows "
        "what it does",
        doctor);
  else
    words += fmt::format(
        ", as happens if an MPI without GPU support is given a device pointer. Fairlead was not loaded: run "
        "the program without --no-preload, or see with `{}` what this MPI can do",
        doctor);
  say(words);
}

LaunchPlan plan_launch(const RunArguments& arguments, const Words& program_words) {
  Program program = inspect_program(program_words.front());
  if (arguments.launcher_words.has("wdir")) program.path = std::filesystem::absolute(program.path).string();
  Plan plan = make_plan(program, program_words, arguments);
  if (arguments.preload) preload_library(plan.abi);  // throws where there is none

  Launch launch;
  launch.ranks = arguments.ranks;
  auto variables = variables_for_ranks(arguments);
  if (!plan.folders.empty()) variables.emplace("LD_LIBRARY_PATH", plan.folders);
  launch.variables.assign(variables.begin(), variables.end());
  launch.extra = spelled_for(*plan.launcher.kind, arguments.launcher_words);
  for (const std::string& text : arguments.launcher_args)
    for (const std::string& word : shell_split(text)) launch.extra.push_back(word);
  const Words pmi = pmi_words(plan.launcher, plan.abi, program, launch.extra);
  launch.extra.insert(launch.extra.begin(), pmi.begin(), pmi.end());
  launch.command = {own_path(), "exec", "--mpi", plan.abi};
  if (!arguments.preload) launch.command.push_back("--no-preload");
  if (!arguments.variables) launch.command.push_back("--no-variables");
  if (arguments.mps) launch.command.push_back("--mps");
  for (const std::string& tool : arguments.tools) {
    // Ranks may start in another folder; a name without one is searched for by the loader.
    const bool named = tool.find('/') == std::string::npos;
    launch.command.insert(launch.command.end(),
                          {"--tool", named ? tool : std::filesystem::absolute(tool).string()});
  }
  for (const std::string& word : to_words(arguments.binding)) launch.command.push_back(word);
  launch.command.push_back(program.path);
  launch.command.insert(launch.command.end(), program_words.begin() + 1, program_words.end());

  std::map<std::string, std::string> set_in_ranks;
  if (arguments.dry_run && arguments.preload && arguments.variables && arguments.sim == 0)
    set_in_ranks = gpu_aware_variables(program, plan.abi);
  // Of a program that loads MPI later, as Python does, the doctor can tell nothing.
  const std::string judged = program.abi.empty() ? "" : " " + shell_quote(program_words.front());
  return {launch_line(plan.launcher, launch), set_in_ranks, plan.launcher.kind->signals, plan.abi,
          "fairlead doctor" + judged};
}

bool is_this_tool(const std::string& program) {
  std::error_code error;
  std::string path = find_on_path(program);
  return !path.empty() && std::filesystem::canonical(path, error) == own_path();
}

// What only MPI_Finalize would tell. Where the first rank may be elsewhere, it tells in MPI_Init.
void check_files(const RunArguments& arguments) {
  if (ranks_may_be_elsewhere(arguments)) return;
  if (!arguments.stats_file.empty()) check_file_target("--stats-file", arguments.stats_file);
  if (!arguments.trace.empty()) check_file_target("--trace", arguments.trace);
  // The loader goes on without a library that it cannot load. It knows names without a folder, and "$LIB".
  for (const std::string& tool : arguments.tools)
    if (tool.find('/') != std::string::npos && tool.find_first_of("$:") == std::string::npos &&
        !is_shared_library(tool))
      throw usage(fmt::format("--tool: {} is no shared library of this machine; name one", tool));
  // Launchers explain a missing folder by a crash of the ranks.
  std::error_code error;
  const auto folder = arguments.launcher_words.values.find("wdir");
  if (folder != arguments.launcher_words.values.end() &&
      !std::filesystem::is_directory(folder->second, error))
    throw usage(
        fmt::format("--wdir: {} is no folder{}", folder->second, error ? " (" + error.message() + ")" : ""));
}

// A file of JSON that was written to its end; as far as this node sees it.
bool is_whole(const std::string& file) {
  std::ifstream text(file);
  text.seekg(-2, std::ios::end);
  std::string end(2, ' ');
  text.read(end.data(), 2);
  return end == "}\n";
}

// Says where what was recorded is; false if a file should be here and is not, or was joined, with these
// words.
bool tell_files(const RunArguments& arguments, const std::string& joined) {
  bool all = joined.empty() || (arguments.stats_file.empty() && arguments.trace.empty());
  auto tell = [&](const std::string& file, const char* what, const std::string& more) {
    std::error_code error;
    const bool is_special =
        std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error);
    if (file.empty() || is_special) return;
    if (is_whole(file)) return say(fmt::format("fairlead run: the {} in {}{}{}", what, file, joined, more));
    if (ranks_may_be_elsewhere(arguments)) return;
    all = false;
    say(fmt::format("fairlead run: the {} not in {}: the job has not written all of it", what, file));
  };
  tell(arguments.stats_file, "statistics are", "");
  tell(arguments.trace, "trace is",
       fmt::format("; open it at https://ui.perfetto.dev, or: fairlead plot {} -o trace.png",
                   shell_quote(arguments.trace)));
  return all;
}

}  // namespace

bool ranks_may_be_elsewhere() {
  return std::any_of(allocations().begin(), allocations().end(),
                     [](const Allocation& each) { return each.here(); });
}

bool ranks_may_be_elsewhere(const RunArguments& arguments) {
  return ranks_may_be_elsewhere() || !arguments.launcher_args.empty() ||
         arguments.launcher_words.has("hostfile") || arguments.launcher_words.has("host");
}

void define_run(CLI::App& app, RunArguments& arguments) {
  app.add_option("-n,--ranks,--np", arguments.ranks, "Number of ranks; also -np N.")
      ->type_name("N")
      ->check(whole_number(1, 1 << 20));
  app.add_option(
         "--mpi", arguments.mpi,
         "MPI to use: openmpi, mpich or abi, or the path of a launcher. The MPI of that launcher then "
         "replaces the one that the program is linked with. Default: the MPI that the program is "
         "linked with; for scripts, the MPI of the first launcher on PATH.")
      ->type_name("MPI")
      ->check(suggested({"openmpi", "mpich", "abi", "@file"}));
  define_binding(app, arguments.binding);
  auto json =
      app.add_option("--json", arguments.json,
                     "After the job, write to FILE as JSON how the job was started, the cores and the GPU of "
                     "each rank, and how the job ended. All nodes must share the folder of FILE.")
          ->type_name("FILE");
  define_settings(app, arguments);
  app.add_flag("--dry-run", arguments.dry_run,
               "Print the command line of the launcher and exit. Comments name the variables that ranks "
               "would set if their GPUs were those of this node.")
      ->excludes(json);
  app.add_option(
         "--launcher-args", arguments.launcher_args,
         fmt::format(
             "More options for the launcher, in one argument that is split as by a shell. May be repeated. "
             "By default {}. An option given here, such as '--bind-to core', replaces its default.",
             arguments_added()))
      ->type_name("WORDS")
      ->check(words_for_a_shell())
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  define_launcher_words(app, arguments.launcher_words);
  set_up(app, "-n N [options] PROGRAM [arguments]",
         "  fairlead run -n 4 ./my_mpi_program --its --options\n"
         "  fairlead run -n 2 --sim 2 --launcher-args '--map-by numa' ./my_mpi_program\n"
         "  fairlead run -n 8 --gpu nearest --bind-cores --print-binding ./my_mpi_program\n"
         "  fairlead run -n 4 --progress 60 --json job.json ./my_mpi_program");
}

Words launcher_line(const RunArguments& arguments, const Words& program_words) {
  return plan_launch(arguments, program_words).line;
}

int launch(const RunArguments& asked, const Words& program) {
  RunArguments arguments = asked;
  std::optional<JobReport> report;
  if (!arguments.json.empty()) arguments.binding.json = report.emplace(arguments.json).file_of_rank();
  LaunchPlan plan = plan_launch(arguments, program);
  if (arguments.dry_run) {
    std::cout << shell_line(plan.line) << "\n";
    for (const auto& [name, value] : plan.set_in_ranks)
      std::cout << fmt::format("# each rank sets {}={}\n", name, shell_quote(value));
    return exit_success;
  }
  // The launcher itself runs without Fairlead; `fairlead exec` loads it into the ranks.
  std::string others = preload_with("");
  if (others.empty())
    unsetenv("LD_PRELOAD");
  else
    setenv("LD_PRELOAD", others.c_str(), 1);
  std::cout.flush();
  // What a run before has left does not stand for this one.
  for (const std::string& file : {arguments.stats_file, arguments.trace})
    if (!file.empty()) discard_file(file);
  const RecordOfRun record(arguments.ranks);
  const auto asked_for_record = [&record] {
    std::cerr << record.now() << std::flush;
    return record.ranks_catch(SIGUSR1);
  };
  int code = run_through(plan.line, asked_for_record, arguments.is_benchmark);
  explain_death(code, plan.signals, arguments.preload, plan.doctor);
  if (const std::string end = code == 0 ? "" : record.end(); !end.empty())
    std::cerr << "fairlead run: ranks on this node did not complete MPI_Finalize; where they were:\n" << end;
  if (!tell_files(arguments, join_parts(record, arguments)) && code == exit_success) code = exit_problem;
  if (report) report->write(arguments, plan.line, plan.abi, code);
  return code;
}

int run_command(const Words& words) {
  CLI::App app("Run an MPI program with Fairlead loaded into its ranks.", "fairlead run");
  RunArguments arguments;
  define_run(app, arguments);
  Words program;
  try {
    if (!parse(app, words, &program)) return exit_success;
  } catch (const Failure& failure) {
    const std::string text = failure.what(), unknown = "unknown option ";
    if (text.rfind(unknown, 0) != 0) throw;
    const std::string word =
        text.substr(unknown.size(), text.find_first_of("; ", unknown.size()) - unknown.size());
    if (const std::string answer = answer_to_launcher_word(word); !answer.empty())
      throw usage(fmt::format("{}{}; {}", unknown, word, answer));
    throw usage(text + "; other words for the launcher go into --launcher-args '...'");
  }
  constexpr const char* form = "usage: fairlead run -n N [options] PROGRAM [arguments]";
  if (arguments.ranks == 0) {
    bool behind = std::any_of(program.begin(), program.end(), [](const std::string& word) {
      return word == "-n" || word == "-np" || word == "--np" || word == "--ranks";
    });
    throw usage(fmt::format("the number of ranks, -n N, is missing{}; {}",
                            behind ? " before the program: everything after the program belongs to it" : "",
                            form));
  }
  if (program.empty()) throw usage(fmt::format("no PROGRAM given; {}", form));
  check_binding(arguments.binding);
  check_settings(arguments);
  if (!arguments.dry_run) {
    refuse_in_ranks("in ranks use `fairlead exec`, or start `fairlead run` once");
    check_files(arguments);
  }
  if (is_this_tool(program.front())) program = bench_for_ranks(program, arguments);
  return launch(arguments, program);
}

}  // namespace fairlead::tools
