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
#include "doctor/doctor.h"
#include "options/options.h"
#include "plot/plot.h"
#include "run/run.h"

namespace fairlead::tools {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Words& words);
};

constexpr Command commands[] = {
    {"run", "start an MPI program with Fairlead loaded", run_command},
    {"exec", "become one rank with Fairlead loaded, under mpirun, srun or flux", exec_command},
    {"bench", "measure messages, collectives and the GPU's own copy", bench_command},
    {"matrix", "measure every two GPUs, and say on which neighbouring ranks belong", matrix_command},
    {"doctor", "find out whether this MPI is GPU-aware, why not, and what to do", doctor_command},
    {"plot", "draw what the benchmarks wrote, as a picture or in the terminal", plot_command},
    {"options", "print every option of the library and the value in force", options_command},
};

constexpr const char* examples =
    "  fairlead run -n 4 ./my_mpi_program\n"
    "  fairlead doctor ./my_mpi_program\n"
    "  fairlead bench latency\n"
    "  fairlead matrix --map gpus.map\n"
    "  fairlead bench bw -m 1m:64m D H --json -";

std::string help() {
  std::string text =
      "Usage: fairlead COMMAND [options]\n\nMakes any MPI GPU-aware: device pointers in MPI calls just "
      "work.\n\nCommands:\n";
  for (const Command& command : commands) text += fmt::format("  {:<10}{}\n", command.name, command.summary);
  return text + fmt::format(
                    "\n`fairlead COMMAND --help` or `fairlead help COMMAND` tells more.\n\nExit codes: 0 "
                    "fine, 1 a problem was found, 2 "
                    "the command line makes no "
                    "sense,\n77 this machine cannot run it. `run` and `exec` pass on the program's "
                    "own.\n\nExamples:\n{}\n",
                    examples);
}

// Visits the definition of every command, and of every benchmark.
template <class Visit>
void for_each_definition(Visit visit) {
  auto define_and_visit = [&](const std::string& name, const std::string& description, auto arguments,
                              auto define) {
    CLI::App app(description, "fairlead " + name);
    define(app, arguments);
    visit(name, app);
  };
  auto command = [&](const char* name, auto arguments, auto define) {
    auto row = std::find_if(std::begin(commands), std::end(commands),
                            [&](const Command& c) { return std::string_view(c.name) == name; });
    define_and_visit(name, row->summary, arguments, define);
  };
  command("run", RunArguments{}, define_run);
  command("exec", ExecArguments{}, define_exec);
  for (const BenchmarkKind& kind : benchmark_kinds) {
    BenchArguments arguments;
    arguments.kind = &kind;
    define_and_visit(command_of(kind).substr(std::string("fairlead ").size()), description_of(kind),
                     arguments, define_bench);
  }
  command("doctor", DoctorArguments{}, define_doctor);
  command("plot", PlotArguments{}, define_plot);
  command("options", OptionsArguments{}, define_options);
}

std::string manual_page() {
  std::string text = ".TH FAIRLEAD 1 \"\" \"fairlead " FAIRLEAD_VERSION
                     "\"\n.SH NAME\nfairlead \\- makes any MPI GPU\\-aware\n"
                     ".SH SYNOPSIS\n.B fairlead\n.I command\n.RI [ options ]\n.SH COMMANDS\n";
  for_each_definition([&](const std::string&, const CLI::App& app) { text += manual_section(app); });
  return text +
         ".SH EXIT STATUS\n0 fine, 1 a problem was found, 2 the command line makes no sense, 77 this machine "
         "cannot run it.\n"
         ".SH ENVIRONMENT\n.B FAIRLEAD_HOME\nnames the tree in which the libraries and benchmark programs "
         "are looked for;\n"
         ".B fairlead options\nlists the options of the library.\n";
}

std::string completion() {
  const std::string help_and_version = " -h --help -V --version";
  std::string names = "=", benchmarks = "=";
  for (const Command& command : commands) names += std::string(command.name) + ",";
  for (const BenchmarkKind& kind : benchmark_kinds) benchmarks += std::string(kind.name) + ",";
  std::vector<std::pair<std::string, std::string>> all;
  for_each_definition([&](const std::string& name, CLI::App& app) {
    const bool starts_program = name == "run" || name == "exec";  // whose words they leave alone
    all.emplace_back(name, (starts_program ? "=@program " : "") + completion_of(app));
    if (name == "options") all.emplace_back("doctor options", completion_of(app));
    if (name == "matrix") all.emplace_back("bench matrix", completion_of(app));
  });
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
  std::string accepted;
  for (const Command& known : commands) accepted += std::string(accepted.empty() ? "" : ", ") + known.name;
  if (words.empty())
    throw usage(fmt::format("no command given; accepted: {}; see fairlead --help", accepted));
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
    return dispatch(words);
  } catch (const Failure& failure) {
    return complain(name, failure);
  }
}
