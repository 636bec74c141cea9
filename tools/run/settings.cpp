// SPDX-License-Identifier: Apache-2.0

#include "run/settings.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/memory/memory_kinds.h"
#include "base/options.h"
#include "common/command_line.h"

namespace fairlead::tools {

constexpr const char* checks =
    "leaks, streams, accesses, collectives, or several of these, separated by commas";

void define_settings(CLI::App& app, Settings& settings) {
  app.add_option("--sim", settings.sim,
                 "Run on N simulated GPUs instead of real ones; programs use them through fairlead/device.h.")
      ->type_name("N")
      ->check(whole_number(1, 64));
  app.add_flag_callback(
      "--no-preload", [&settings] { settings.preload = false; },
      "Run the program without Fairlead, with everything else unchanged.");
  app.add_flag_callback(
      "--no-variables", [&settings] { settings.variables = false; },
      "Do not set the environment variables by which programs ask whether the MPI accepts device memory. By "
      "default, ranks with GPUs get those that are unset, with the value for yes.");
  app.add_option("--tool", settings.tools,
                 "Load LIBRARY before Fairlead: a profiler then counts the MPI calls of the program, not "
                 "those that Fairlead makes. May be repeated.")
      ->type_name("LIBRARY")
      ->allow_extra_args(false);
  app.add_flag(
      "--mps", settings.mps,
      "Let ranks that share a GPU run on it at the same time: start NVIDIA's Multi-Process Service on each "
      "node, and end it with the job. If one is already running, it is used and not stopped.");
  app.add_flag("--stats", settings.stats,
               "After the job, print statistics of the MPI calls, with the places in the program, and of the "
               "device messages of all ranks; `fairlead run` does so even if the job is killed. A rank that "
               "receives SIGUSR1 prints its own statistics so far.");
  app.add_option("--stats-file", settings.stats_file, "Write these statistics to FILE as JSON.")
      ->type_name("FILE");
  app.add_option("--trace", settings.trace, "Write a trace of the whole job to FILE, for ui.perfetto.dev.")
      ->type_name("FILE");
  app.add_option("--progress", settings.progress_s,
                 "Every N seconds, print on stderr what rank 0 has done so far, and the MPI call that it is "
                 "in, if it has been in it for a second or more.")
      ->type_name("N")
      ->check(whole_number(1, 86400));
  app.add_option("--check", settings.check,
                 fmt::format("Look for mistakes of the program: {}; the same as FAIRLEAD_CHECK.", checks))
      ->type_name("LIST")
      ->check(suggested({"leaks", "streams", "accesses", "collectives"}));
  app.add_option("--log", settings.log,
                 "How much to write to stderr: error (the least), warn, info, debug or trace (the most); the "
                 "same as FAIRLEAD_LOG.")
      ->type_name("LEVEL")
      ->check(one_of({"error", "warn", "info", "debug", "trace"}));
  app.add_option("--memory-alloc-kinds", settings.memory_alloc_kinds,
                 "Kinds of memory that the program requests, such as system,cuda:device; the same as "
                 "-memory-alloc-kinds of mpiexec in MPI 4.1.")
      ->type_name("LIST");
}

void check_settings(const Settings& settings) {
  std::vector<std::string> wrong;
  KindList::parse(settings.memory_alloc_kinds, &wrong);
  if (!wrong.empty())
    throw usage(fmt::format(
        "--memory-alloc-kinds has '{}'; accepted: KIND or KIND:RESTRICTOR, separated by commas, such as "
        "system,cuda:device",
        wrong.front()));
  if (!settings.check.empty() && !complaint_about("FAIRLEAD_CHECK", settings.check).empty())
    throw usage(fmt::format("--check has '{}'; accepted: {}", settings.check, checks));
  const std::pair<const char*, bool> recorded[] = {
      {"--stats", settings.stats},
      {"--stats-file", !settings.stats_file.empty()},
      {"--trace", !settings.trace.empty()},
      {"--progress", settings.progress_s > 0},
      {"--check", !settings.check.empty()},
      {"--log", !settings.log.empty()},
      {"--memory-alloc-kinds", !settings.memory_alloc_kinds.empty()}};
  for (auto [option, given] : recorded)
    if (given && !settings.preload)
      throw usage(fmt::format(
          "{} needs Fairlead, and --no-preload runs the program without it; accepted: one of the two",
          option));
}

std::map<std::string, std::string> to_variables(const Settings& settings) {
  std::map<std::string, std::string> variables;
  // Ranks may start in another folder.
  auto absolute = [](const std::string& file) { return std::filesystem::absolute(file).string(); };
  if (!settings.device.empty()) variables["FAIRLEAD_DEVICE"] = settings.device;
  if (settings.sim > 0) {
    variables["FAIRLEAD_DEVICE"] = "sim";
    variables["FAIRLEAD_SIM_DEVICES"] = std::to_string(settings.sim);
  }
  std::string& statistics = variables["FAIRLEAD_STATS"];
  if (settings.stats) statistics = "on";
  if (!settings.stats_file.empty()) statistics += (settings.stats ? "," : "") + absolute(settings.stats_file);
  if (statistics.empty()) variables.erase("FAIRLEAD_STATS");
  if (!settings.trace.empty()) variables["FAIRLEAD_TRACE"] = absolute(settings.trace);
  if (settings.progress_s > 0) variables["FAIRLEAD_PROGRESS_S"] = std::to_string(settings.progress_s);
  if (!settings.check.empty()) variables["FAIRLEAD_CHECK"] = settings.check;
  if (!settings.log.empty()) variables["FAIRLEAD_LOG"] = settings.log;
  if (!settings.memory_alloc_kinds.empty())
    variables["FAIRLEAD_MEMORY_ALLOC_KINDS"] = settings.memory_alloc_kinds;
  return variables;
}

}  // namespace fairlead::tools
