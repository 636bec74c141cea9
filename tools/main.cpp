// SPDX-License-Identifier: Apache-2.0
//
// The command `fairlead`: finds the subcommand and turns its failures into one line and an exit code.

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string_view>

#include "bench/bench.h"
#include "common/command_line.h"
#include "common/completion.h"
#include "common/manual.h"
#include "compare/compare.h"
#include "doctor/doctor.h"
#include "hang/hang.h"
#include "info/info.h"
#include "options/options.h"
#include "plot/plot.h"
#include "run/run.h"

namespace fairlead::tools {
namespace {

// For what only looks at a definition.
template <class Arguments, void (*define)(CLI::App&, Arguments&)>
void with_defaults(CLI::App& app) {
  static Arguments arguments;
  define(app, arguments);
}

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Words& words);
  void (*define)(CLI::App& app);  // null where its definition is that of benchmarks
};

constexpr Command commands[] = {
    {"run", "start an MPI program with Fairlead loaded", run_command,
     with_defaults<RunArguments, define_run>},
    {"exec", "run one rank with Fairlead loaded, under mpirun, srun or flux", exec_command,
     with_defaults<ExecArguments, define_exec>},
    {"bench", "measure messages, collectives and the GPU's own copy", bench_command, nullptr},
    {"matrix", "measure all pairs of GPUs, and recommend GPUs for neighbouring ranks", matrix_command,
     nullptr},
    {"compare", "compare two runs of a benchmark, or the statistics of two jobs", compare_command,
     with_defaults<CompareArguments, define_compare>},
    {"doctor", "find out whether an MPI is GPU-aware, and if not, why and what to do", doctor_command,
     with_defaults<DoctorArguments, define_doctor>},
    {"hang", "print what the ranks of a running job wait for", hang_command,
     with_defaults<HangArguments, define_hang>},
    {"plot", "draw benchmarks, statistics and traces, in a file or in the terminal", plot_command,
     with_defaults<PlotArguments, define_plot>},
    {"info", "print the version, the MPIs and GPUs found, and where files are", info_command,
     with_defaults<InfoArguments, define_info>},
    {"options", "print the library's options and their current values", options_command,
     with_defaults<OptionsArguments, define_options>},
};

constexpr const char* examples =
    "  fairlead run -n 4 ./my_mpi_program\n"
    "  fairlead doctor ./my_mpi_program\n"
    "  fairlead bench latency\n"
    "  fairlead matrix --map gpus.map\n"
    "  fairlead bench bw -m 1m:64m D H --json -";

std::string help() {
  std::string text =
      "Usage: fairlead COMMAND [options]\n\nMakes an MPI GPU-aware: programs may pass device pointers to "
      "MPI calls.\n\nCommands:\n";
  for (const Command& command : commands) text += fmt::format("  {:<10}{}\n", command.name, command.summary);
  return text + fmt::format(
                    "\n`fairlead COMMAND --help` or `fairlead help COMMAND` describes a command.\n\n"
                    "Exit code 0 means success, 1 that a problem was found or output could not be\n"
                    "written, 2 an invalid command line, and 77 that this machine cannot run the\ncommand. "
                    "`run` and `exec` return the exit code of the program; `run` returns 130\n"
                    "after Ctrl-C and 143 after SIGTERM.\n\nExamples:\n{}\n",
                    examples);
}

std::string manual_page() {
  ManualPage page("fairlead", 1, "makes any MPI GPU-aware");
  page.section("SYNOPSIS");
  page.paragraph("fairlead COMMAND [options]");
  page.section("DESCRIPTION");
  page.paragraph(
      "A library that is preloaded into the ranks of a program carries out the MPI calls that pass device "
      "memory, and leaves all others to the MPI. The program need not be changed, and the MPI need not be "
      "GPU-aware.");
  page.paragraph("Each command has a page of its own, such as fairlead-run(1).");
  page.section("COMMANDS");
  for (const Command& command : commands) page.item(command.name, std::string(command.summary) + ".");
  page.section("OPTIONS");
  page.item("-h, --help", "Print the commands and exit; fairlead COMMAND --help describes one.");
  page.item("-V, --version", "Print the version and exit.");
  page.item("--completion", "Print the completion for bash.");
  page.item("--help-man", "Print this page; fairlead COMMAND --help-man prints that of a command.");
  page.section("EXAMPLES");
  page.lines(examples);
  add_surroundings(&page, "fairlead");
  return page.text();
}

std::string completion() {
  const std::string help_and_version = " -h --help -V --version";
  std::string names = "=", benchmarks = "=";
  for (const Command& command : commands) names += std::string(command.name) + ",";
  for (const BenchmarkKind& kind : benchmark_kinds) benchmarks += std::string(kind.name) + ",";
  std::vector<std::pair<std::string, std::string>> all;
  for (const Command& command : commands) {
    if (!command.define) continue;
    const std::string name = command.name;
    CLI::App app;
    command.define(app);
    const bool starts_program = name == "run" || name == "exec";  // whose words they leave alone
    all.emplace_back(name, (starts_program ? "=@program " : "") + completion_of(app));
    if (name == "options") all.emplace_back("doctor options", completion_of(app));
  }
  for (const BenchmarkKind& kind : benchmark_kinds) {
    BenchArguments arguments;
    arguments.kind = &kind;
    CLI::App app;
    define_bench(app, arguments);
    const std::string command = command_of(kind).substr(std::string("fairlead ").size());
    all.emplace_back(command, completion_of(app));
    if (command == "matrix") all.emplace_back("bench matrix", completion_of(app));
  }
  all.insert(
      all.begin(),
      {{"", names + "help" + help_and_version}, {"help", names}, {"bench", benchmarks + help_and_version}});
  return completion_script(all);
}

Failure no_command(const std::string& word, const std::string& accepted) {
  if (word.rfind('-', 0) == 0)
    return usage(fmt::format("unknown option {}; accepted: -h, -V, or a command: {}", word, accepted));
  if (const BenchmarkKind* kind = find_kind(word))
    return usage(fmt::format("no command '{}'; it is a benchmark: {}", word, command_of(*kind)));
  const std::string guess = did_you_mean(word, split(accepted, ", "));
  return usage(fmt::format("no command '{}'{} accepted: {}", word, guess.empty() ? ";" : guess, accepted));
}

int dispatch(const Words& words) {
  if (words.empty()) return dispatch({"--help"});
  std::string accepted;
  for (const Command& known : commands) accepted += std::string(accepted.empty() ? "" : ", ") + known.name;
  const std::string& first = words.front();
  if (first == "help" && words.size() > 1) {
    Words asked(words.begin() + 1, words.end());
    asked.push_back("--help");
    return dispatch(asked);
  }
  if (first == "-h" || first == "--help" || first == "help") {
    std::cout << help();
    return exit_success;
  }
  if (first == "-V" || first == "--version") {
    std::cout << "fairlead " FAIRLEAD_VERSION "\n";
    return exit_success;
  }
  if (first == "--help-man") {
    std::cout << manual_page();
    return exit_success;
  }
  if (first == "--completion") {
    std::cout << completion();
    return exit_success;
  }
  auto command = std::find_if(std::begin(commands), std::end(commands),
                              [&](const Command& c) { return first == c.name; });
  if (command == std::end(commands)) throw no_command(first, accepted);
  return command->run(Words(words.begin() + 1, words.end()));
}

}  // namespace
}  // namespace fairlead::tools

int main(int argc, char** argv) {
  using namespace fairlead::tools;
  Words words(argv + 1, argv + argc);
  std::string name = "fairlead";
  for (const Command& command : commands)
    if (!words.empty() && words[0] == command.name) name += std::string(" ") + command.name;
  try {
    const int code = dispatch(words);
    require_stdout();
    return code;
  } catch (const Failure& failure) {
    return complain(name, failure);
  }
}
