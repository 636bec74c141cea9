// SPDX-License-Identifier: Apache-2.0
//
// More of area `gpu`, for AMD's: what keeps ROCm from GPUs that the tools list, or ranks from each other's
// memory.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "doctor/check.h"

namespace fairlead::tools::doctor {
namespace {

bool amd(const Machine& machine) {
  return has_amd(machine);
}
bool amd_list(const Machine& machine) {
  return has_amd(machine) && has_list(machine);
}

constexpr const char* gives_devices =
    "modprobe amdgpu; for containers: --device=/dev/kfd --device=/dev/dri (Apptainer: --rocm)";
constexpr const char* gives_rights =
    "add this user to the groups of the device files, usually render and video (usermod -aG render,video "
    "USER), "
    "and log in anew; for containers: --group-add with their numbers";

// "/dev/dri/renderD129 (No such file or directory)"
std::string with_reason(const std::string& path, const std::string& why) {
  return fmt::format("{} ({})", path, why);
}

// ROCm opens the driver's file, then a file for each GPU: it leaves out GPUs whose file is missing or
// withheld by a control group, and fails as a whole if one may not be opened.
Finding device_files(const Machine& machine) {
  const System& system = machine.system;
  const auto driver = system.refused("/dev/kfd");
  if (!driver) return skip("it is not recorded which device files this user may open");
  std::vector<std::string> details;
  if (const auto groups = system.run({"id", "-nG"}))
    details.push_back("groups of this user: " + trimmed(*groups));
  if (*driver == no_such_file)
    return fail("there is no /dev/kfd, by which ROCm finds GPUs", gives_devices, details);
  if (!driver->empty())
    return fail(fmt::format("{} cannot be opened", with_reason("/dev/kfd", *driver)), gives_rights, details);
  std::vector<std::string> lacking, forbidden;
  const std::vector<device::KfdGpu> gpus = kfd_gpus(system);
  for (const device::KfdGpu& gpu : gpus) {
    const std::string path = fmt::format("/dev/dri/renderD{}", gpu.render),
                      why = system.refused(path).value_or("");
    const bool left_out = why == no_such_file || why == not_permitted;
    if (gpu.render && !why.empty()) (left_out ? lacking : forbidden).push_back(with_reason(path, why));
  }
  if (!forbidden.empty())
    return fail(fmt::format("{} cannot be opened: ROCm finds no GPU then", fmt::join(forbidden, ", ")),
                gives_rights, details);
  if (!lacking.empty() && lacking.size() == gpus.size())
    return fail(fmt::format("no GPU's device file can be opened: {}", fmt::join(lacking, ", ")),
                gives_devices, details);
  if (!lacking.empty())
    return warn(fmt::format("ROCm leaves {} of {} GPUs out: {}", lacking.size(), gpus.size(),
                            fmt::join(lacking, ", ")),
                "none if the job was given the others only; else give the container all of /dev/dri",
                details);
  return ok(fmt::format("this user may open /dev/kfd{}",
                        gpus.empty() ? "" : fmt::format(" and the device files of all {} GPUs", gpus.size())),
            details);
}

// ROCm's releases that share memory by dma-buf: if it is requested, and by default.
constexpr std::pair<int, int> first_with_dma_buf = {6, 1}, first_by_default = {7, 2};

std::pair<int, int> release(const Gpus& gpus) {
  int major = 0, minor = 0;
  std::sscanf(gpus.runtime.c_str(), "%d.%d", &major, &minor);
  return {major, minor};
}

// The kernel's own amdgpu lacks the calls by which ROCr shares memory in its older way. That of AMD's
// packages (DKMS) has them, and a version.
Finding ipc_of_driver(const Machine& machine) {
  const System& system = machine.system;
  if (!system.exists("/sys/module/amdgpu"))
    return skip("/sys/module does not show which amdgpu is loaded, the kernel's own or AMD's (DKMS)");
  if (system.exists("/sys/module/amdgpu/version"))
    return ok("amdgpu is that of AMD's packages: ROCm shares memory between processes in both of its ways");
  const std::string legacy = system.variable("HSA_ENABLE_IPC_MODE_LEGACY"),
                    kernels = "amdgpu is the kernel's own";
  const std::string staged = "processes cannot share device memory, and messages are staged";
  const bool known = !machine.gpus.runtime.empty(), old = release(machine.gpus) < first_by_default;
  if (legacy == "1")
    return warn(
        fmt::format("{}, and HSA_ENABLE_IPC_MODE_LEGACY=1 demands what it lacks: {}", kernels, staged),
        "unset HSA_ENABLE_IPC_MODE_LEGACY, which containers may bring, or set it to 0");
  if (known && release(machine.gpus) < first_with_dma_buf)
    return warn(fmt::format("{}, which lacks what ROCm {} needs: {}", kernels, machine.gpus.runtime, staged),
                "ROCm 6.1 or newer, or amdgpu-dkms of AMD's packages");
  if (legacy == "0" || (known && !old))
    return ok(fmt::format("{}, and ROCm shares memory between processes by dma-buf", kernels));
  const std::string fact = fmt::format(
      "{}, with which ROCm before 7.2 shares memory only if HSA_ENABLE_IPC_MODE_LEGACY is 0", kernels);
  if (machine.preload) return ok(fact + ", as `fairlead run` and `exec` set it");
  return warn(fact + ": " + staged, "export HSA_ENABLE_IPC_MODE_LEGACY=0");
}

// Modes of a GPU, which is divided if there are several partitions at its address.
Finding partitions(const Machine& machine) {
  std::set<std::string> modes;
  for (const Gpu& gpu : machine.gpus.list) {
    const std::string whole = gpu.pci.substr(0, gpu.pci.find('.')) + ".0";
    auto mode = [&](const char* file) {
      return machine.system.first_line("/sys/bus/pci/devices/" + whole + "/" + file);
    };
    const std::string compute = mode("current_compute_partition"), memory = mode("current_memory_partition");
    if (!compute.empty()) modes.insert(memory.empty() ? compute : compute + "/" + memory);
  }
  const std::vector<device::KfdGpu> gpus = kfd_gpus(machine.system);
  std::set<std::string> addresses, packages;
  for (const device::KfdGpu& gpu : gpus) {
    addresses.insert(gpu.pci);
    packages.insert(gpu.pci.substr(0, gpu.pci.find('.')));
  }
  if (addresses.size() < gpus.size())
    return warn(
        fmt::format("partitions of a GPU share an address: {} for {} GPUs; ranks that see one each take them "
                    "for the same GPU",
                    addresses.size(), gpus.size()),
        "let every rank see all GPUs of its node, or install a newer amdgpu");
  const std::string told = modes.empty() ? "" : fmt::format(" (mode {})", fmt::join(modes, ", "));
  if (packages.size() < gpus.size())
    return ok(fmt::format("{} GPUs are divided into {} partitions{}: a rank for each", packages.size(),
                          gpus.size(), told));
  return ok("GPUs are not divided" + told);
}

// The driver gives queues of so many processes to a GPU at once, and lets the others wait.
constexpr int processes_at_once = 8;

Finding processes_of_gpus(const Machine& machine) {
  const System& system = machine.system;
  const std::string folder = "/sys/class/kfd/kfd/proc",
                    parameter = "/sys/module/amdgpu/parameters/hws_max_conc_proc";
  const int set = std::atoi(system.first_line(parameter).c_str());
  const int most = set > 0 ? std::min(set, processes_at_once) : processes_at_once;
  std::map<std::string, int> users;  // of each GPU, by its id
  for (const std::string& process : system.list(folder)) {
    const std::string queues = folder + "/" + process + "/queues";
    std::set<std::string> used;
    for (const std::string& queue : system.list(queues))
      used.insert(system.first_line(queues + "/" + queue + "/gpuid"));
    for (const std::string& gpu : used) ++users[gpu];
  }
  int busiest = 0;
  for (const auto& [gpu, count] : users) busiest = std::max(busiest, count);
  if (busiest > most)
    return warn(fmt::format("{} processes use one GPU, of which the driver runs {} at a time", busiest, most),
                "fewer ranks for each GPU: the others wait for milliseconds at every switch");
  return ok(busiest == 0 ? fmt::format("no process uses a GPU; the driver runs {} for each at a time", most)
                         : fmt::format("{} process{} a GPU at most, of {} that the driver runs at a time",
                                       busiest, busiest == 1 ? " uses" : "es use", most));
}

}  // namespace

std::vector<Check> amd_checks() {
  return {
      {"gpu.access", "Whether this user may open the driver's device files.", "AMD GPUs",
       "Groups render and video; /dev/kfd and /dev/dri for containers.", amd, device_files},
      {"gpu.ipc", "Whether ROCm's way to share memory between processes is one of the loaded driver.",
       "AMD GPUs", "HSA_ENABLE_IPC_MODE_LEGACY=0, which `fairlead run` sets.", amd, ipc_of_driver},
      {"gpu.partition", "Whether GPUs are divided into partitions, and can be told apart.", "AMD GPUs",
       "A rank for each partition.", amd_list, partitions},
      {"gpu.processes", "Whether more processes use a GPU than its driver runs at a time.", "AMD GPUs",
       "Fewer ranks for each GPU.", amd_list, processes_of_gpus},
  };
}

}  // namespace fairlead::tools::doctor
