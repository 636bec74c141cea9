// SPDX-License-Identifier: Apache-2.0
//
// Area `env`: variables of Fairlead, MPI, UCX and the GPU runtimes that are set here: misspelt, without
// effect, or at odds with each other or with the machine.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/options.h"
#include "doctor/check.h"

namespace fairlead::tools::doctor {
namespace {

bool starts_with_any(const std::string& name, const std::vector<const char*>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

// Launchers describe the job itself to its ranks by these.
bool is_of_a_job(const std::string& name) {
  return starts_with_any(
      name, {"OMPI_COMM_WORLD_", "OMPI_UNIVERSE", "OMPI_APP", "OMPI_FILE_", "OMPI_MCA_orte_", "OMPI_MCA_ess",
             "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_RUNTIME", "OMPI_NUM", "OMPI_FIRST",
             "OMPI_ARGV", "OMPI_COMMAND", "OMPI_MCA_prte", "OMPI_PARENT"});
}

Finding fairlead_options(const Machine& machine) {
  std::vector<std::string> set, complaints;
  for (const auto& [name, value] : machine.system.environment()) {
    if (name.rfind("FAIRLEAD_", 0) != 0) continue;
    set.push_back(name + "=" + value);
    if (std::string complaint = complaint_about(name, value); !complaint.empty())
      complaints.push_back(complaint);
  }
  if (!complaints.empty())
    return warn(fmt::format("{}", fmt::join(complaints, "; ")),
                "correct it; `fairlead doctor options` lists every option", set);
  if (set.empty()) return ok("no option of Fairlead is set: defaults hold");
  return ok(fmt::format("options of Fairlead are set: {}", fmt::join(set, " ")), set);
}

// The parameters an Open MPI knows, from the lines "mca:btl:sm:param:btl_sm_priority:value:0".
std::vector<std::string> known_parameters(const std::string& info) {
  std::set<std::string> names;
  for (const std::string& line : lines_of(info)) {
    size_t at = line.find(":param:");
    if (at == std::string::npos) continue;
    size_t start = at + 7;
    names.insert("OMPI_MCA_" + line.substr(start, line.find(':', start) - start));
  }
  return {names.begin(), names.end()};
}

// The variables a UCX knows, from the lines "UCX_TLS=all".
std::vector<std::string> known_settings(const std::string& config) {
  std::vector<std::string> names;
  for (const std::string& line : lines_of(config))
    if (line.rfind("UCX_", 0) == 0) names.push_back(line.substr(0, line.find('=')));
  return names;
}

Finding misspelt(const Machine& machine, const char* prefix, const std::vector<std::string>& known,
                 const char* lister) {
  if (known.empty())
    return skip(
        fmt::format("{} variables cannot be checked: `{}`, which lists them, is not there", prefix, lister));
  std::vector<std::string> unknown, set;
  // Frameworks are chosen by their own names (OMPI_MCA_btl), which are no parameters of a component.
  for (const auto& [name, value] : machine.system.environment()) {
    if (name.rfind(prefix, 0) != 0 || is_of_a_job(name)) continue;
    set.push_back(name + "=" + value);
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string nearest = nearest_name(name, known, std::string(prefix).size());
    unknown.push_back(name + (nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
  }
  if (!unknown.empty())
    return warn(fmt::format("`{}` does not know {}", lister, fmt::join(unknown, ", ")),
                fmt::format("correct or unset it; `{}` lists what there is", lister), set);
  if (set.empty()) return ok(fmt::format("no {} variable is set", prefix));
  return ok(fmt::format("`{}` knows all that are set: {}", lister, fmt::join(set, " ")));
}

Finding open_mpi_parameters(const Machine& machine) {
  return misspelt(machine, "OMPI_MCA_", known_parameters(machine.mpi.info), "ompi_info --all");
}

Finding ucx_settings(const Machine& machine) {
  return misspelt(machine, "UCX_", known_settings(machine.ucx.config), "ucx_info -c");
}

// One thing that cannot be meant. `found`: what is at odds, "" where nothing is.
struct Rule {
  std::string (*found)(const Machine&);
  const char* remedy;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {[](const Machine& machine) -> std::string {
         return is_off(machine.system.variable("FAIRLEAD_ENABLED"))
                    ? "FAIRLEAD_ENABLED is off: Fairlead forwards every call"
                    : "";
       },
       "unset FAIRLEAD_ENABLED"},
      {[](const Machine& machine) -> std::string {
         return is_off(machine.system.variable("FAIRLEAD_GPU_SUPPORT"))
                    ? "FAIRLEAD_GPU_SUPPORT is off: device memory in an MPI call is an error"
                    : "";
       },
       "unset FAIRLEAD_GPU_SUPPORT"},
      {[](const Machine& machine) -> std::string {
         std::string wanted = machine.system.variable("FAIRLEAD_DEVICE");
         return wanted == "sim" && has_gpu(machine) ? "FAIRLEAD_DEVICE=sim, on a machine with GPUs" : "";
       },
       "unset FAIRLEAD_DEVICE to use them"},
      {[](const Machine& machine) -> std::string {
         std::string wanted = machine.system.variable("FAIRLEAD_DEVICE");
         bool missing = (wanted == "cuda" && !has_nvidia(machine)) || (wanted == "rocm" && !has_amd(machine));
         return missing ? fmt::format("FAIRLEAD_DEVICE={}, and no such GPU here", wanted) : "";
       },
       "unset FAIRLEAD_DEVICE"},
      {[](const Machine& machine) -> std::string {
         bool native = machine.system.variable("FAIRLEAD_NETWORK") == "native";
         return native && awareness(machine).known && !handles_gpus(machine)
                    ? "FAIRLEAD_NETWORK=native, but this MPI does not handle device memory: it crashes "
                      "between nodes"
                    : "";
       },
       "unset FAIRLEAD_NETWORK"},
      {[](const Machine& machine) -> std::string {
         std::string wanted = machine.system.variable("OMPI_MCA_pml");
         bool lacks =
             wanted == "ucx" && machine.mpi.is_open_mpi() && !machine.mpi.info.empty() && !uses_ucx(machine);
         return lacks ? "OMPI_MCA_pml=ucx, but this Open MPI was built without UCX: MPI_Init fails" : "";
       },
       "unset OMPI_MCA_pml"},
      {[](const Machine& machine) -> std::string {
         bool ob1 =
             machine.system.variable("OMPI_MCA_pml") == "ob1" && uses_ucx(machine) && handles_gpus(machine);
         return ob1 ? "OMPI_MCA_pml=ob1 keeps UCX, which has the GPU's fast paths, out of use" : "";
       },
       "unset OMPI_MCA_pml, or set it to ucx"},
      {[](const Machine& machine) -> std::string {
         return machine.system.variable("HSA_ENABLE_PEER_SDMA") == "0" ||
                        machine.system.variable("HSA_ENABLE_SDMA") != "0" || !has_amd(machine)
                    ? ""
                    : "HSA_ENABLE_SDMA=0: copies run as kernels, also those to the host";
       },
       "HSA_ENABLE_PEER_SDMA=0 does so between GPUs only"},
      {[](const Machine& machine) -> std::string {
         std::string preload = machine.system.variable("LD_PRELOAD");
         size_t first = preload.find("libfairlead-");
         return first != std::string::npos && preload.find("libfairlead-", first + 1) != std::string::npos
                    ? "LD_PRELOAD holds two Fairlead libraries"
                    : "";
       },
       "leave one, or let `fairlead run` set it"},
      {[](const Machine& machine) -> std::string {
         std::string preload = machine.system.variable("LD_PRELOAD");
         size_t at = preload.find("libfairlead-");
         if (at == std::string::npos || machine.mpi.abi.empty()) return "";
         std::string abi = preload.substr(at + 12, preload.find(".so", at) - at - 12);
         return abi == machine.mpi.abi
                    ? ""
                    : fmt::format("LD_PRELOAD holds libfairlead-{}.so, but the MPI's ABI is {}", abi,
                                  machine.mpi.abi);
       },
       "let `fairlead run` choose the library"},
      {[](const Machine& machine) -> std::string {
         return machine.system.variable("CUDA_LAUNCH_BLOCKING") == "1" && has_nvidia(machine)
                    ? "CUDA_LAUNCH_BLOCKING=1: every kernel and copy is waited for"
                    : "";
       },
       "unset CUDA_LAUNCH_BLOCKING but for debugging"},
  };
  return all;
}

Finding contradictions(const Machine& machine) {
  std::vector<std::string> found, remedies;
  for (const Rule& rule : rules())
    if (std::string text = rule.found(machine); !text.empty()) {
      found.push_back(text);
      remedies.push_back(rule.remedy);
    }
  if (found.empty())
    return ok(fmt::format("no conflicting variables, of {} known conflicts", rules().size()));
  return warn(fmt::format("{}", fmt::join(found, "; ")), fmt::format("{}", fmt::join(remedies, "; ")));
}

Finding all_set(const Machine& machine) {
  std::vector<std::string> details;
  for (const auto& [name, value] : machine.system.environment())
    if (!is_of_a_job(name) &&
        (starts_with_any(name,
                         {"OMPI_", "PRTE_MCA_", "PMIX_MCA_", "MPICH_", "MPIR_CVAR_", "I_MPI_", "MV2_", "MVP_",
                          "UCX_", "FI_", "GTL_", "CUDA_", "HIP_", "HSA_", "ROCR_", "NCCL_", "NVIDIA_"}) ||
         name == "LD_PRELOAD"))
      details.push_back(name + "=" + value);
  if (details.empty()) return ok("no variable of MPI, UCX, libfabric, CUDA or ROCm is set");
  std::vector<std::string> names;
  for (const std::string& entry : details) names.push_back(entry.substr(0, entry.find('=')));
  return ok(fmt::format("variables that are set: {}", fmt::join(names, " ")), details);
}

}  // namespace

std::vector<Check> environment_checks() {
  return {
      {"env.fairlead", "Options of Fairlead that are set: unknown names, values that are not understood.", "",
       "Correct it; `fairlead doctor options` lists every option.", always, fairlead_options},
      {"env.openmpi", "OMPI_MCA_ variables that this Open MPI does not know.", "Open MPI",
       "Correct or unset it.", [](const Machine& machine) { return machine.mpi.is_open_mpi(); },
       open_mpi_parameters},
      {"env.ucx", "UCX_ variables that this UCX does not know.", "an MPI that uses UCX",
       "Correct or unset it.", [](const Machine& machine) { return uses_ucx(machine); }, ucx_settings},
      {"env.conflicts", "Variables that contradict each other, the MPI or the machine.", "",
       "As the line says.", always, contradictions},
      {"env.set", "Every variable of MPI, UCX, libfabric, CUDA and ROCm that is set; -v shows the values.",
       "", "", always, all_set},
  };
}

}  // namespace fairlead::tools::doctor
