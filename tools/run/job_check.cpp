// SPDX-License-Identifier: Apache-2.0

#include "run/job_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/launched_job.h"
#include "common/failure.h"
#include "common/places.h"
#include "run/launcher.h"
#include "run/program.h"

namespace fairlead::tools {
namespace {

namespace fs = std::filesystem;

// Is the launcher one of this MPI's, or a scheduler's that offers the PMI that it needs?
bool serves(const Job& job, const std::string& abi) {
  if (!job.abi.empty()) return job.abi == abi;
  const Pmi* pmi = find_pmi(job.launcher, abi);
  return job.size > 0 && (!pmi || pmi->offered());
}

// Has the MPI of this program another way to find the other ranks?
bool knows_another_way(const Program& program, const Pmi& pmi) {
  const Words libraries = split(pmi.libraries);
  const std::string linked = library_listing(program.path);
  auto is_linked = [&](const std::string& each) { return linked.find(each) != std::string::npos; };
  if (std::any_of(libraries.begin(), libraries.end(), is_linked)) return true;
  std::error_code error;
  const fs::path folder = fs::canonical(program.mpi_library, error).parent_path();
  for (const char* plugins : open_mpi_plugin_folders)
    for (const std::string& library : libraries)
      if (fs::exists(folder / plugins / library, error)) return true;
  return false;
}

}  // namespace

Launched judge_launcher(const Program& program, const std::string& abi) {
  const std::vector<Job> jobs = jobs_from_environment();
  if (jobs.empty()) return {};
  const Job& job = jobs.front();
  if (abi.empty())
    return {!job.abi.empty() || std::any_of(mpi_abis.begin(), mpi_abis.end(),
                                            [&](const std::string& each) { return serves(job, each); }),
            ""};
  // Where one launcher started another, the program's own may be among them. PMIx's variables alone tell no
  // size.
  if (std::any_of(jobs.begin(), jobs.end(), [&](const Job& each) { return serves(each, abi); })) return {};
  const Pmi* pmi = find_pmi(job.launcher, abi);
  if ((job.abi.empty() && !pmi) || (!job.abi.empty() && abi == "abi"))
    return {};  // which start any, or several
  if (program.mpi_library.empty()) return {false, ""};
  const std::string linked = fmt::format("{} is linked with {} ({})", program.path, abi, program.mpi_soname);
  constexpr const char* result = "each process would be a job of one rank; start it with";
  if (pmi && knows_another_way(program, *pmi)) return {};
  if (pmi)
    return {false, fmt::format("{} started {} processes without the PMI of {}, but {}: {} {}", job.launcher,
                               job.processes(), abi, linked, result, pmi->command)};
  std::string remedy = "the launcher of that MPI";
  try {
    remedy = find_launcher(abi, program.mpi_library).path;
  } catch (const Failure&) {
    // The words above will do.
  }
  return {false, fmt::format("the launcher is {}, of the ABI {}, but {}: {} {}", job.launcher, job.abi,
                             linked, result, remedy)};
}

void refuse_in_ranks(const std::string& remedy) {
  const auto job = job_from_environment();
  if (job && job->processes() > 1)
    throw usage(
        fmt::format("{} started {} processes like this one, and each would start a job of its own; {}",
                    job->launcher, job->processes(), remedy));
}

}  // namespace fairlead::tools
