// SPDX-License-Identifier: Apache-2.0
//
// `fairlead exec`: the last step before a rank's program, under any launcher: loads Fairlead's library for
// the program's MPI and, when asked, binds the rank to a GPU and its cores.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "base/launched_job.h"
#include "common/command_line.h"
#include "common/places.h"
#include "common/process.h"
#include "run/gpu_aware.h"
#include "run/job_check.h"
#include "run/mps/mps.h"
#include "run/program.h"
#include "run/run.h"

namespace fairlead::tools {
namespace {

std::string choose_abi(const Program& program, const std::string& asked) {
  if (!asked.empty() && !program.abi.empty() && asked != program.abi)
    throw usage(fmt::format("--mpi {}, but {} is linked with {} ({})", asked, program.path, program.abi,
                            program.mpi_soname));
  if (!asked.empty()) return asked;
  if (!program.abi.empty()) return program.abi;
  if (program.kind != ProgramKind::dynamic)
    if (auto job = job_from_environment(); job && !job->abi.empty()) return job->abi;
  throw usage(
      fmt::format("{} is not linked with an MPI library; for a program that loads MPI later give --mpi {}",
                  program.path, fmt::join(mpi_abis, "|")));
}

}  // namespace

void define_exec(CLI::App& app, ExecArguments& arguments) {
  app.add_option("--mpi", arguments.mpi,
                 "MPI ABI: openmpi, mpich or abi. Default: that of the MPI that the program is linked with.")
      ->type_name("ABI")
      ->check(one_of(mpi_abis));
  app.add_flag("--any-launcher", arguments.any_launcher,
               "Continue even under the launcher of another MPI than the program's, where each process is a "
               "job of one rank.");
  define_binding(app, arguments.binding);
  app.add_option(
         "--json", arguments.binding.json,
         "Write to FILE as JSON which cores and GPU this rank has; {rank} in the name becomes its rank.")
      ->type_name("FILE");
  define_settings(app, arguments);
  set_up(app, "[options] PROGRAM [arguments]",
         "  mpirun -n 4 fairlead exec ./my_mpi_program\n"
         "  srun --mpi=pmix -n 8 fairlead exec --gpu nearest ./my_mpi_program");
}

int exec_command(const Words& words) {
  CLI::App app(
      "Run one rank of an MPI program with Fairlead loaded; for use under mpirun, mpiexec, srun or flux.",
      "fairlead exec");
  ExecArguments arguments;
  define_exec(app, arguments);
  Words command;
  if (!parse(app, words, &command)) return exit_success;
  if (command.empty()) throw usage("no PROGRAM given; usage: fairlead exec [options] PROGRAM [arguments]");
  check_binding(arguments.binding);
  check_settings(arguments);
  for (const auto& [name, value] : to_variables(arguments)) setenv(name.c_str(), value.c_str(), 1);
  Program program = inspect_program(command.front());
  command.front() = program.path;
  std::string abi, library;
  if (arguments.preload) {
    require_loadable(program);
    abi = choose_abi(program, arguments.mpi);
    library = preload_library(abi);
  }
  const Launched launched = judge_launcher(program, !arguments.mpi.empty() ? arguments.mpi : program.abi);
  if (!launched.mistake.empty() && !arguments.any_launcher)
    throw usage(launched.mistake + ", or go on with --any-launcher");
  if (arguments.mps) use_mps();
  bind_rank(arguments.binding, launched.ranks);
  if (arguments.preload && arguments.variables)
    for (const auto& [name, value] : gpu_aware_variables(program, abi))
      setenv(name.c_str(), value.c_str(), 1);
  Words in_front = arguments.tools;
  if (!library.empty()) {
    if (const std::string device = device_library_before(program); !device.empty())
      in_front.push_back(device);
    in_front.push_back(library);
  }
  std::string preload = preload_with(fmt::format("{}", fmt::join(in_front, ":")));
  if (preload.empty())
    unsetenv("LD_PRELOAD");
  else
    setenv("LD_PRELOAD", preload.c_str(), 1);
  become(command);
}

}  // namespace fairlead::tools
