// SPDX-License-Identifier: Apache-2.0
//
// Area `gpu`: the GPUs, their driver and modes.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>

#include "common/visibility.h"
#include "common/words.h"
#include "device/cuda_hip/gpu_targets.h"
#include "doctor/check.h"
#include "kernels/module.h"

namespace fairlead::kernels {
ModuleImages copies();
}

namespace fairlead::tools::doctor {
namespace {

bool has_nvidia_list(const Machine& machine) {
  return has_nvidia(machine) && has_list(machine);
}

// "GPUs 0-2,5" for which it holds; "" for none.
template <class Condition>
std::string gpus_with(const Gpus& gpus, Condition condition) {
  std::set<int> numbers;
  for (const Gpu& gpu : gpus.list)
    if (condition(gpu)) numbers.insert(gpu.index);
  return gpus_in_words(numbers);
}

// One value for all GPUs, or each GPU's.
template <class Field>
std::string told(const Gpus& gpus, Field field) {
  bool alike = std::all_of(gpus.list.begin(), gpus.list.end(),
                           [&](const Gpu& gpu) { return gpu.*field == gpus.list.front().*field; });
  if (alike) return gpus.list.front().*field;
  std::string text;
  for (const Gpu& gpu : gpus.list)
    text += fmt::format("{}GPU {} {}", text.empty() ? "" : ", ", gpu.index, gpu.*field);
  return text;
}

// The variable by which a scheduler, or the user, names GPUs: "CUDA_VISIBLE_DEVICES=0,1".
std::string gpus_given(const System& system) {
  for (const char* provider : {"cuda", "rocm"})
    for (const ChosenGpus& chosen : visibility(provider, system.environment()).layers)
      if (!chosen.entries.empty()) return fmt::format("{}={}", chosen.variable, chosen.text);
  return {};
}

Finding found(const Machine& machine) {
  const Gpus& gpus = machine.gpus;
  std::vector<std::string> details;
  for (const Gpu& gpu : gpus.list)
    details.push_back(fmt::format("GPU {}: {}{} at {}, NUMA node {}", gpu.index, gpu.name,
                                  gpu.target.empty() ? "" : " (" + gpu.target + ")", gpu.pci,
                                  gpu.numa < 0 ? "unknown" : std::to_string(gpu.numa)));
  std::string driver = gpus.driver.empty() ? "" : fmt::format(", driver {}", gpus.driver);
  std::string runtime =
      gpus.runtime.empty() ? "" : fmt::format(", {} {}", has_nvidia(machine) ? "CUDA" : "ROCm", gpus.runtime);
  if (!gpus.list.empty()) return ok(gpus.summary() + driver + runtime, details);
  if (gpus.vendor == Vendor::none) {
    if (!gpus.tool_words.empty())
      return fail(fmt::format("nvidia-smi: {}", gpus.tool_words),
                  "load the driver (modprobe nvidia), or give the container its GPUs (--nv, --gpus all)");
    if (const std::string given = gpus_given(machine.system); !given.empty())
      return warn(
          fmt::format("the job was given GPUs ({}), but this node shows none (driver, control group)", given),
          "load the driver, and check what the scheduler gave: nvidia-smi or rocm-smi in the job");
    return skip("no GPU on the PCI bus and none that nvidia-smi, rocm-smi or amd-smi lists",
                "fairlead run --sim 2 runs programs on simulated GPUs");
  }
  std::string tool = gpus.vendor == Vendor::nvidia ? "nvidia-smi" : "rocm-smi or amd-smi";
  if (!gpus.tool_words.empty())
    return fail(fmt::format("{} on the PCI bus, but nvidia-smi: {}", gpus.summary(), gpus.tool_words),
                "load the driver of the installed version: modprobe nvidia");
  return fail(fmt::format("{} on the PCI bus, but {} lists none", gpus.summary(), tool),
              "load the driver, or give the container or the job its GPUs");
}

Finding library(const Machine& machine) {
  const std::string path = driver_library(machine.system, machine.gpus.vendor);
  if (!path.empty()) return ok(fmt::format("the loader finds the driver's library, {}", path));
  return fail(
      fmt::format("the loader does not find {}", has_nvidia(machine) ? "libcuda.so.1" : "libamdhip64.so"),
      has_nvidia(machine)
          ? "install the driver's libraries (in containers: --nv, or the NVIDIA container toolkit), or set "
            "LD_LIBRARY_PATH to their folder"
          : "load the ROCm module, or set LD_LIBRARY_PATH to /opt/rocm/lib");
}

bool mps_runs(const Machine& machine) {
  std::string pipes = machine.system.variable("CUDA_MPS_PIPE_DIRECTORY");
  return machine.system.exists((pipes.empty() ? "/tmp/nvidia-mps" : pipes) + "/control.lock");
}

Finding compute_mode(const Machine& machine) {
  const Gpus& gpus = machine.gpus;
  std::string mode = told(gpus, &Gpu::compute_mode);
  if (std::string which = gpus_with(gpus, [](const Gpu& gpu) { return gpu.compute_mode == "Prohibited"; });
      !which.empty())
    return fail(fmt::format("compute mode Prohibited on {}: no program may use it", which),
                "nvidia-smi -c DEFAULT, as root");
  bool exclusive = std::any_of(gpus.list.begin(), gpus.list.end(),
                               [](const Gpu& gpu) { return gpu.compute_mode.rfind("Exclusive", 0) == 0; });
  if (exclusive && !mps_runs(machine))
    return warn(
        fmt::format("compute mode {}, and MPS does not run: a second rank on a GPU is refused", mode),
        "start one rank a GPU, start MPS (nvidia-cuda-mps-control -d), or nvidia-smi -c DEFAULT as root");
  return ok(exclusive
                ? fmt::format("compute mode {}, and MPS runs: several ranks may use a GPU through it", mode)
                : fmt::format("compute mode {}: several ranks may use a GPU", mode));
}

Finding mig(const Machine& machine) {
  std::string on = gpus_with(machine.gpus, [](const Gpu& gpu) { return gpu.mig == "Enabled"; });
  if (on.empty()) return ok("MIG is off: GPUs are not split");
  return warn(
      fmt::format(
          "MIG is on for {}: a process sees one instance, and instances cannot reach each other's memory",
          on),
      "nvidia-smi -mig 0 as root for jobs of several ranks; with MIG their messages are staged through host "
      "memory");
}

Finding mps(const Machine& machine) {
  if (!mps_runs(machine)) return ok("MPS does not run: ranks that share a GPU take turns on it");
  return ok("MPS runs: ranks that share a GPU run on it together");
}

// XNACK from rocminfo: a line of its own, or the suffix of the target, gfx90a:sramecc+:xnack-.
std::string xnack(const System& system) {
  std::string text = system.run({"rocminfo"}).value_or("");
  std::string line = value_of(text, "XNACK enabled:");
  if (!line.empty()) return line == "YES" ? "on" : "off";
  return holds(text, ":xnack+") ? "on" : holds(text, ":xnack-") ? "off" : "";
}

Finding page_migration(const Machine& machine) {
  if (has_nvidia(machine)) {
    std::string mode = told(machine.gpus, &Gpu::addressing);
    if (mode.empty() || mode == "N/A" || mode == "None")
      return ok("neither HMM nor ATS: GPUs reach host memory only if CUDA allocated or registered it");
    return ok(fmt::format("{}: GPUs reach all host memory, which stays host memory for MPI", mode));
  }
  std::string asked = machine.system.variable("HSA_XNACK"), state = xnack(machine.system);
  if (state.empty()) return skip("rocminfo does not report the state of XNACK", "put /opt/rocm/bin on PATH");
  if (asked == "1" && state == "off")
    return warn("HSA_XNACK=1, but rocminfo says XNACK is off: managed memory does not migrate",
                "boot with amdgpu.noretry=0, or unset HSA_XNACK");
  return ok(fmt::format("XNACK is {}: {}", state,
                        state == "on" ? "GPUs reach all host memory, which stays host memory for MPI"
                                      : "GPUs reach host memory only if HIP allocated or registered it"));
}

Finding ecc(const Machine& machine) {
  const Gpus& gpus = machine.gpus;
  const bool amd = has_amd(machine);
  std::string mode = told(gpus, &Gpu::ecc);
  if (mode.empty() && amd)
    return skip("amdgpu does not report ECC: these GPUs have none, or /sys or the real machine is hidden");
  if (mode.empty() || mode == "N/A" || mode == "[N/A]") return skip("these GPUs have no ECC");
  std::string off = gpus_with(gpus, [](const Gpu& gpu) { return gpu.ecc == "Disabled"; });
  if (!off.empty())
    return warn(fmt::format("ECC is off for {}: wrong bits in memory go unnoticed", off),
                amd ? "load amdgpu with ras_enable=1" : "nvidia-smi -e 1 as root, and reboot");
  if (std::string bad = gpus_with(gpus, [](const Gpu& gpu) { return gpu.uncorrected > 0; }); !bad.empty())
    return warn(
        fmt::format(
            "ECC is on, and {} had memory errors that could not be corrected since the driver was loaded",
            bad),
        fmt::format("`{}` tells what was retired; have the node tested",
                    amd ? "amd-smi bad-pages" : "nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT"));
  if (mode == "Host")
    return ok("the GPUs' memory is the processor's, whose own driver (EDAC) tells of errors");
  std::string mended = gpus_with(gpus, [](const Gpu& gpu) { return gpu.corrected > 0; });
  std::string once = gpus_with(gpus, [](const Gpu& gpu) { return gpu.uncorrected_ever > 0; });
  std::string fact = mended.empty()
                         ? "ECC is on, no memory errors"
                         : fmt::format("ECC is on; {} had memory errors that were corrected", mended);
  if (!once.empty())
    fact += fmt::format("; {} had errors that could not be corrected, before the driver was loaded", once);
  return ok(fact);
}

// Does the second list begin with a GPU beyond those that the first one leaves?
bool hides_all(const Visibility& found) {
  const std::string& first = found.layers[1].entries.front();
  return first.find_first_not_of("0123456789") == std::string::npos &&
         std::strtoull(first.c_str(), nullptr, 10) >= found.layers[0].entries.size();
}

// What a scheduler and the user leave of the GPUs.
Finding visible(const Machine& machine) {
  const Environment environment = machine.system.environment();
  const Visibility found = visibility(has_nvidia(machine) ? "cuda" : "rocm", environment);
  auto set = [](const ChosenGpus& chosen) { return fmt::format("{}={}", chosen.variable, chosen.text); };
  for (const ChosenGpus& chosen : found.layers)
    if (chosen.entries.empty())
      return fail(fmt::format("{} hides all GPUs", set(chosen)),
                  fmt::format("unset {}, or ask the scheduler for a GPU", chosen.variable));
  if (found.layers.size() > 1 && hides_all(found))
    return fail(fmt::format("{} and {} hide all GPUs: HIP counts among the GPUs that ROCR leaves, from 0 on",
                            set(found.layers[0]), set(found.layers[1])),
                fmt::format("unset {}", found.layers[1].variable));
  if (found.layers.size() > 1)
    return warn(fmt::format("{} and {}: each chooses among the GPUs that the other left",
                            set(found.layers[0]), set(found.layers[1])),
                "set one of them: HIP counts its devices among those that ROCR shows");
  if (!found.overruled.empty())
    return warn(
        fmt::format("{} has no effect: HIP looks at {}", set(found.overruled[0]), set(found.layers[0])),
        fmt::format("unset {}, or give both one list", found.overruled[0].variable));
  if (has_amd(machine) && environment.count("GPU_DEVICE_ORDINAL"))
    return warn("GPU_DEVICE_ORDINAL is set, which OpenCL reads and HIP does not", "set HIP_VISIBLE_DEVICES");
  return ok(found.layers.empty()
                ? "no variable hides a GPU"
                : fmt::format("{} chooses the GPUs that programs see", set(found.layers[0])));
}

bool has_targets(const Machine& machine) {
  return std::any_of(machine.gpus.list.begin(), machine.gpus.list.end(),
                     [](const Gpu& gpu) { return !gpu.target.empty(); });
}

// ROCm loads generic code from 6.4 on; a machine that does not tell its ROCm is given the benefit of the
// doubt.
bool loads_generic_code(const Gpus& gpus) {
  int major = 0, minor = 0;
  return std::sscanf(gpus.runtime.c_str(), "%d.%d", &major, &minor) < 2 || major > 6 ||
         (major == 6 && minor >= 4);
}

Finding code(const Machine& machine) {
  const auto [first, count] = kernels::copies();
  std::string built;
  for (const auto* image = first; image != first + count; ++image)
    if (std::string_view(image->target).starts_with("gfx")) built += fmt::format(" {}", image->target);
  if (built.empty())
    return warn(
        "this build has no device code for AMD GPUs: reductions and layouts with gaps go through host memory",
        "install clang 19 or newer with lld, and build with -DFAIRLEAD_DEVICE_TARGETS=all");
  for (const Gpu& gpu : machine.gpus.list) {
    int best = 0;
    std::string fits;
    for (const auto* image = first; image != first + count; ++image)
      if (int rank = device::gpu_image_rank(image->target, gpu.target); !gpu.target.empty() && rank > best)
        best = rank, fits = image->target;
    if (gpu.target.empty() || fits == gpu.target) continue;
    if (fits.empty())
      return warn(
          fmt::format("this build has no code for GPU {}, {}: reductions and layouts with gaps go through "
                      "host memory",
                      gpu.index, gpu.target),
          fmt::format(
              "build with -DFAIRLEAD_DEVICE_TARGETS=all and a newer clang, 19 or ROCm's own; this one "
              "made code for{}",
              built));
    if (!loads_generic_code(machine.gpus))
      return warn(fmt::format("GPU {}, {}, can run only {} of this build, which ROCm {} does not load",
                              gpu.index, gpu.target, fits, machine.gpus.runtime),
                  "ROCm 6.4 or newer");
  }
  return ok(fmt::format("this build has device code for these GPUs ({})", told(machine.gpus, &Gpu::target)));
}

}  // namespace

std::vector<Check> gpu_checks() {
  std::vector<Check> checks = {
      {"gpu.found",
       "GPUs, their driver and its version of CUDA or ROCm; and whether the tools list what is on the bus.",
       "", "Load the driver, or give the container or the job its GPUs.", always, found},
      {"gpu.library", "The driver's library that programs and Fairlead open: libcuda.so.1, libamdhip64.so.",
       "a GPU", "Install it, or set LD_LIBRARY_PATH to its folder.", has_gpu, library},
      {"gpu.visible", "What CUDA_VISIBLE_DEVICES and its kin leave of the GPUs.", "a GPU",
       "Unset the variable that the line names.", has_gpu, visible},
      {"gpu.code", "Whether this build has device code for the GPUs.", "AMD GPUs",
       "Build with a newer clang; ROCm 6.4 for generic code.", has_targets, code},
      {"gpu.mode", "Compute mode: whether several ranks may share a GPU.", "NVIDIA GPUs",
       "One rank a GPU, MPS, or nvidia-smi -c DEFAULT.", has_nvidia_list, compute_mode},
      {"gpu.mig", "MIG: whether GPUs are divided into instances, which cannot share memory.", "NVIDIA GPUs",
       "nvidia-smi -mig 0 for jobs of several ranks.", has_nvidia_list, mig},
      {"gpu.mps", "MPS: whether ranks that share a GPU run on it together.", "NVIDIA GPUs",
       "nvidia-cuda-mps-control -d.", has_nvidia_list, mps},
      {"gpu.migration", "HMM, ATS or XNACK: whether GPUs reach memory of the host's own allocators.", "a GPU",
       "As the line says.", has_list, page_migration},
      {"gpu.ecc", "Whether memory errors are noticed, and whether there were any.", "a GPU",
       "nvidia-smi -e 1; amdgpu.ras_enable=1.", has_list, ecc},
  };
  for (const auto& more : {coherent_checks(), amd_checks()})
    checks.insert(checks.end(), more.begin(), more.end());
  return checks;
}

}  // namespace fairlead::tools::doctor
