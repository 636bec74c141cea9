// SPDX-License-Identifier: Apache-2.0
//
// Area `link`: how GPUs reach each other, the CPU, and the network's adapters.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "common/words.h"
#include "doctor/check.h"
#include "doctor/link_table.h"

namespace fairlead::tools::doctor {

std::vector<std::string> rdma_adapters(const System& system) {
  return system.list("/sys/class/infiniband");
}

namespace {

bool has_two(const Machine& machine) {
  return machine.gpus.list.size() > 1;
}

Sysfs sysfs_of(const System& system) {
  return {[&system](const std::string& folder) { return system.list(folder); },
          [&system](const std::string& path) { return system.first_line(path); },
          [&system](const std::string& path) { return system.real_path(path); }};
}

bool has_adapter(const Machine& machine) {
  return has_list(machine) &&
         (!rdma_adapters(machine.system).empty() || !machine.system.list("/sys/class/cxi").empty());
}
bool has_rdma_adapter(const Machine& machine) {
  return has_gpu(machine) && !rdma_adapters(machine.system).empty();
}

Finding pairs(const Machine& machine) {
  LinkTable table = link_table(machine.system, machine.gpus);
  size_t count = machine.gpus.list.size();
  if (table.rows.size() < count)
    return skip(fmt::format("{} prints no table of links",
                            has_nvidia(machine) ? "nvidia-smi topo -m" : machine.gpus.source + " topology"));
  std::map<std::string, int> kinds;
  std::string slowest, slow_pair;
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b) {
      std::string cell = table.at(a, b);
      ++kinds[cell];
      if (link_kind(cell) == LinkKind::fast) continue;
      if (slow_pair.empty() || link_kind(cell) > link_kind(slowest))
        slow_pair = fmt::format("GPUs {} and {}", a, b), slowest = cell;
    }
  std::vector<std::string> parts;
  for (const auto& [cell, pairs] : kinds)
    parts.push_back(fmt::format("{} by {}", pairs, link_in_words(cell)));
  std::string fact = fmt::format("pairs of GPUs are connected: {}", fmt::join(parts, ", "));
  if (slow_pair.empty()) return ok(fact, table.lines);
  if (link_kind(slowest) == LinkKind::socket)
    return warn(
        fmt::format("{}; {} are connected through a processor", fact, slow_pair),
        "let ranks that talk most use GPUs that are close; where the driver gives no peer access there, "
        "messages are staged through host memory",
        table.lines);
  return ok(fact, table.lines);
}

Finding bar(const Machine& machine) {
  const Gpu& gpu = *std::min_element(machine.gpus.list.begin(), machine.gpus.list.end(),
                                     [](const Gpu& a, const Gpu& b) { return a.bar < b.bar; });
  if (gpu.bar == 0 || gpu.memory == 0)
    return skip(fmt::format("{} does not report the size of the BAR", machine.gpus.source));
  std::string bar = size_in_words(gpu.bar), memory = size_in_words(gpu.memory);
  if (gpu.bar >= gpu.memory)
    return ok(fmt::format("the CPU and adapters reach all device memory: a BAR of {} for {}", bar, memory));
  return warn(
      fmt::format("the CPU and adapters reach only {} of {} device memory (GPU {})", bar, memory, gpu.index),
      "switch \"above 4G decoding\" and \"resizable BAR\" on in the BIOS; until then large registrations for "
      "RDMA fail and messages are staged");
}

bool module_loaded(const System& system, const char* name) {
  for (const std::string& line : lines_of(system.read("/proc/modules").value_or("")))
    if (line.rfind(std::string(name) + " ", 0) == 0) return true;
  return system.exists(std::string("/sys/module/") + name);
}

Finding gdrcopy(const Machine& machine) {
  bool loaded = module_loaded(machine.system, "gdrdrv");
  std::string library = machine.system.library("libgdrapi.so.2");
  if (loaded && !library.empty())
    return ok(fmt::format("gdrcopy is installed: gdrdrv is loaded, and {}", library));
  return warn(loaded ? "gdrcopy is incomplete: gdrdrv is loaded, but the loader does not find libgdrapi.so.2"
                     : "gdrcopy is not installed, gdrdrv is not loaded: small messages need the copy engine",
              loaded ? "install gdrcopy's library"
                     : "install gdrcopy and load its module (modprobe gdrdrv), for latency");
}

// The first two numbers of "5.15.0-91-generic".
bool kernel_at_least(const System& system, int major, int minor) {
  std::string release = system.first_line("/proc/sys/kernel/osrelease");
  int found_major = 0, found_minor = 0;
  std::sscanf(release.c_str(), "%d.%d", &found_major, &found_minor);
  return found_major > major || (found_major == major && found_minor >= minor);
}

// The driver offers its memory to the adapters' (peer memory, a folder of which OFED and kernels name
// differently), or exports it as dma-bufs, for which adapters need two options of the kernel.
Finding rdma_with_amd(const System& system) {
  for (const char* folder : {"/sys/kernel/mm", "/sys/kernel", "/sys"})
    if (system.exists(std::string(folder) + "/memory_peers/amdkfd/version"))
      return ok("adapters reach GPU memory through peer memory of amdgpu");
  if (module_loaded(system, "ib_peer_mem"))
    return ok("adapters reach GPU memory through peer memory: ib_peer_mem is loaded");
  std::string release = system.first_line("/proc/sys/kernel/osrelease");
  auto config = system.read("/boot/config-" + release);
  if (!config)
    return skip(
        fmt::format("it is not known whether adapters reach GPU memory: amdgpu has no peer memory, and "
                    "/boot/config-{}, which holds the options for dma-buf, cannot be read",
                    release));
  std::string lacking;
  for (const char* option : {"CONFIG_PCI_P2PDMA=y", "CONFIG_DMABUF_MOVE_NOTIFY=y"})
    if (!holds(*config, option)) lacking += (lacking.empty() ? "" : " and ") + std::string(option);
  if (!kernel_at_least(system, 5, 12)) lacking = "Linux 5.12";
  if (lacking.empty())
    return ok(fmt::format("adapters reach GPU memory by dma-buf, which Linux {} is built for", release));
  return warn(
      fmt::format(
          "adapters may not reach GPU memory: neither peer memory of amdgpu nor dma-buf (Linux {} without "
          "{})",
          release, lacking),
      "the adapter's drivers with peer memory (OFED, ib_peer_mem), or a kernel with both options");
}

Finding rdma(const Machine& machine) {
  const System& system = machine.system;
  if (has_amd(machine)) return rdma_with_amd(system);
  if (module_loaded(system, "nvidia_peermem"))
    return ok("adapters reach GPU memory: nvidia-peermem is loaded");
  if (module_loaded(system, "nv_peer_mem")) return ok("adapters reach GPU memory: nv_peer_mem is loaded");
  std::string driver = system.read("/proc/driver/nvidia/version").value_or("");
  if (driver.empty())
    return skip(
        "it is not known whether adapters reach GPU memory: nvidia-peermem is not loaded, and "
        "/proc/driver/nvidia/version does not report the driver");
  bool open = holds(driver, "Open Kernel Module");
  std::string release = system.first_line("/proc/sys/kernel/osrelease");
  if (open && kernel_at_least(system, 5, 12))
    return ok(fmt::format("adapters reach GPU memory by dma-buf: the open driver on Linux {}", release));
  return warn(
      fmt::format(
          "adapters cannot reach GPU memory: neither nvidia-peermem nor dma-buf ({} driver on Linux {})",
          open ? "open" : "closed", release),
      "modprobe nvidia-peermem, or the open driver on Linux 5.12 or newer");
}

Finding near(const Machine& machine) {
  const std::vector<GpuAdapters> all = adapters_of_gpus(machine);
  if (all.empty())
    return warn("no network adapter has an active port",
                "ibstat tells their state; check the cables and the subnet manager");
  std::vector<std::string> details;
  std::set<std::string> names;
  std::set<int> far;
  bool known = false;
  for (const auto& [gpu, near] : all) {
    std::vector<std::string> texts;
    for (const Adapter& adapter : near.list) texts.push_back(adapter.text());
    details.push_back(
        fmt::format("GPU {:<3} {:<18} {}", gpu, to_string(near.distance), fmt::join(texts, " ")));
    if (near.distance == Distance::other_node) far.insert(gpu);
    known = known || near.distance != Distance::unknown;
  }
  if (!known) return skip("the kernel does not report where GPUs and network adapters are");
  for (const Adapter& adapter : usable_adapters(sysfs_of(machine.system))) names.insert(adapter.name);
  const size_t gpus = all.size();
  std::string fact = fmt::format("{} network adapter{} for {} GPU{}", names.size(),
                                 names.size() == 1 ? "" : "s", gpus, gpus == 1 ? "" : "s");
  if (far.empty()) return ok(fact + ", each GPU with one in its NUMA node", details);
  return warn(fmt::format("{}; none in the NUMA node of {}", fact, gpus_in_words(far)),
              "let each rank use the adapter nearest to its GPU, which -v shows: fairlead run --bind-nic",
              details);
}

Finding cpus(const Machine& machine) {
  std::string allowed = value_of(machine.system.read("/proc/self/status").value_or(""), "Cpus_allowed_list:");
  std::string all = machine.system.first_line("/sys/devices/system/cpu/online");
  if (allowed.empty()) return skip("/proc/self/status does not report the CPUs of this process");
  std::vector<std::string> details;
  for (const Gpu& gpu : machine.gpus.list)
    if (std::string near = machine.system.first_line("/sys/bus/pci/devices/" + gpu.pci + "/local_cpulist");
        !near.empty())
      details.push_back(fmt::format("GPU {}: CPUs {}", gpu.index, near));
  if (allowed == all) return ok(fmt::format("this process may use all CPUs, {}", all), details);
  bool one = allowed.find_first_of(",-") == std::string::npos;
  if (one)
    return warn(fmt::format("this process is bound to CPU {} alone", allowed),
                "bind ranks to a NUMA node or leave them unbound: the driver and Fairlead run threads beside "
                "the rank's",
                details);
  return ok(fmt::format("this process may use CPUs {} of {}", allowed, all), details);
}

}  // namespace

std::vector<GpuAdapters> adapters_of_gpus(const Machine& machine) {
  const Sysfs sys = sysfs_of(machine.system);
  const std::vector<Adapter> all = usable_adapters(sys);
  std::vector<GpuAdapters> found;
  if (all.empty()) return found;
  for (const Gpu& gpu : machine.gpus.list) found.push_back({gpu.index, nearest_adapters(sys, all, gpu.pci)});
  return found;
}

std::vector<Check> link_checks() {
  return {
      {"link.pairs", "What connects each pair of GPUs: NVLink, xGMI, PCIe and across what.", "two GPUs",
       "Let ranks that talk most use GPUs that are close.", has_two, pairs},
      {"link.bar", "How much device memory the CPU and adapters reach directly.", "a GPU",
       "Resizable BAR and above 4G decoding in the BIOS.", has_list, bar},
      {"link.gdrcopy", "gdrcopy, by which the CPU copies small messages.", "NVIDIA GPUs",
       "Install gdrcopy and load gdrdrv.", has_nvidia, gdrcopy},
      {"link.rdma", "Whether network adapters reach GPU memory: by peer memory or dma-buf.",
       "a GPU and an RDMA adapter", "modprobe nvidia-peermem or ib_peer_mem, or as the line says.",
       has_rdma_adapter, rdma},
      {"link.near", "Which adapters are nearest to each GPU, and how near.", "a GPU and a network adapter",
       "fairlead run --bind-nic.", has_adapter, near},
      {"link.cpus", "The CPUs this process may use, and those near each GPU.", "",
       "Bind ranks to NUMA nodes, not to single CPUs.", always, cpus},
  };
}

}  // namespace fairlead::tools::doctor
