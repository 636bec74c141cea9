// SPDX-License-Identifier: Apache-2.0
//
// `fairlead exec`: the last step before a rank's program, under any launcher: loads Fairlead's library for
// the program's MPI and, when asked, leaves one GPU visible.

#include <fairlead/device.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/launched_job.h"
#include "common/command_line.h"
#include "common/places.h"
#include "common/process.h"
#include "run/launcher.h"
#include "run/program.h"
#include "run/run.h"

namespace fairlead::tools {
namespace {

// One variable per provider: ROCm applies HIP_ and ROCR_VISIBLE_DEVICES one after the other, so setting both
// would hide the device twice.
struct VisibleDevices {
  const char* provider;
  const char* variable;
};
constexpr VisibleDevices visible_devices[] = {{"cuda", "CUDA_VISIBLE_DEVICES"},
                                              {"rocm", "HIP_VISIBLE_DEVICES"}};

// Under the launcher of another MPI each process would be a job of its own, of one rank.
void warn_of_other_launcher(const Program& program) {
  if (program.abi.empty() || program.abi == "abi") return;  // several launchers start the standard ABI
  std::vector<Job> jobs = jobs_from_environment();
  if (jobs.empty() || jobs.front().abi.empty() || jobs.front().rank > 0) return;
  // Where one launcher started another, or a scheduler that serves any MPI did, the program's own may be
  // among them. PMIx's variables, which tell no size, come with Open MPI's.
  if (std::any_of(jobs.begin(), jobs.end(), [&](const Job& job) {
        return job.abi == program.abi || (job.abi.empty() && job.size > 0);
      }))
    return;
  std::string remedy;
  try {
    remedy = find_launcher(program.abi, program.mpi_library).path;
  } catch (const Failure&) {
    remedy = "the launcher of that MPI";
  }
  std::fprintf(
      stderr,
      "fairlead exec: the launcher is %s, of MPI %s, but %s is linked with %s (%s): each process will "
      "be a job of one rank; start it with %s\n",
      jobs.front().launcher, jobs.front().abi.c_str(), program.path.c_str(), program.abi.c_str(),
      program.mpi_soname.c_str(), remedy.c_str());
}

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

// The n-th entry of a list a scheduler may have set already, else n itself.
std::string entry_of(const char* list, int n, int devices) {
  std::vector<std::string> entries;
  std::istringstream stream(list ? list : "");
  for (std::string entry; std::getline(stream, entry, ',');) entries.push_back(entry);
  if (entries.empty()) return std::to_string(n % devices);
  return entries[static_cast<size_t>(n) % entries.size()];
}

void show_one_device() {
  auto job = job_from_environment();
  if (!job || job->local_rank < 0)
    throw usage(
        "--visible: no launcher tells this process its local rank; start it with mpirun, mpiexec, srun or "
        "flux");
  std::string provider = fairlead_device_provider();
  int devices = fairlead_device_count();
  if (devices == 0) throw cannot_run("--visible: no GPU found");
  for (const VisibleDevices& row : visible_devices) {
    if (provider != row.provider) continue;
    std::string chosen = entry_of(std::getenv(row.variable), job->local_rank, devices);
    setenv(row.variable, chosen.c_str(), 1);
  }
}

}  // namespace

void define_exec(CLI::App& app, ExecArguments& arguments) {
  app.add_option("--mpi", arguments.mpi,
                 "MPI ABI: openmpi, mpich or abi. Left out, the MPI the program is linked with.")
      ->type_name("ABI")
      ->check(one_of(mpi_abis));
  app.add_flag("--visible", arguments.visible,
               "Show the program one GPU only: local rank modulo the number of GPUs.");
  app.add_flag_callback(
      "--no-preload", [&arguments] { arguments.preload = false; }, "Run the program without Fairlead.");
  set_up(app, "[options] PROGRAM [arguments]",
         "  mpirun -n 4 fairlead exec ./my_mpi_program\n"
         "  srun -n 8 fairlead exec --visible ./my_mpi_program");
}

int exec_command(const Words& words) {
  CLI::App app(
      "Become one rank of an MPI program with Fairlead loaded; for use under mpirun, mpiexec, srun or flux.",
      "fairlead exec");
  ExecArguments arguments;
  define_exec(app, arguments);
  Words command;
  if (!parse(app, words, &command)) return exit_success;
  if (command.empty()) throw usage("no PROGRAM given; usage: fairlead exec [options] PROGRAM [arguments]");
  Program program = inspect_program(command.front());
  command.front() = program.path;
  std::string library;
  if (arguments.preload) {
    require_loadable(program);
    library = preload_library(choose_abi(program, arguments.mpi));
  }
  warn_of_other_launcher(program);
  if (arguments.visible) show_one_device();
  std::string preload = preload_with(library);
  if (preload.empty())
    unsetenv("LD_PRELOAD");
  else
    setenv("LD_PRELOAD", preload.c_str(), 1);
  become(command);
}

}  // namespace fairlead::tools
