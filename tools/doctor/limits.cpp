// SPDX-License-Identifier: Apache-2.0
//
// Area `limit`: what the kernel, a container or a scheduler keeps from this process.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "common/words.h"
#include "doctor/check.h"

namespace fairlead::tools::doctor {
namespace {

// The last line of `df -Pk`: filesystem, blocks, used, available, capacity, mount point.
Finding shared_memory(const Machine& machine) {
  std::vector<std::string> lines = lines_of(machine.system.run({"df", "-Pk", "/dev/shm"}).value_or(""));
  uint64_t size = 0, used = 0, free = 0;
  std::string device;
  if (!lines.empty()) std::istringstream(lines.back()) >> device >> size >> used >> free;
  if (size == 0)
    return fail("/dev/shm is not mounted: MPIs have no shared memory", "mount -t tmpfs tmpfs /dev/shm");
  std::string fact =
      fmt::format("/dev/shm has {}, {} of it free", size_in_words(size << 10), size_in_words(free << 10));
  constexpr uint64_t docker_default = 64 << 10, enough = 1 << 20;  // KiB
  if (size <= docker_default)
    return fail(fact + ": too small for MPI and NCCL, which crash by SIGBUS when it is full",
                "start the container with --ipc=host or --shm-size=8g");
  if (free < enough)
    return warn(
        fact, "remove what finished jobs left in /dev/shm, or enlarge it: mount -o remount,size=8g /dev/shm");
  return ok(fact);
}

Finding locked_memory(const Machine& machine) {
  std::string limit = value_of(machine.system.read("/proc/self/limits").value_or(""), "Max locked memory");
  if (limit.empty()) return skip("/proc/self/limits does not report how much memory may be locked");
  std::istringstream words(limit);
  std::string soft, hard;
  words >> soft >> hard;
  if (soft == "unlimited") return ok("memory may be locked without limit");
  uint64_t bytes = std::strtoull(soft.c_str(), nullptr, 10);
  bool adapters = !rdma_adapters(machine.system).empty();
  std::string fact =
      fmt::format("{} of memory may be locked (hard limit {})", size_in_words(bytes),
                  hard == "unlimited" ? hard : size_in_words(std::strtoull(hard.c_str(), nullptr, 10)));
  if (bytes >= 1ull << 30 || !adapters)
    return ok(adapters ? fact : fact + ", and no RDMA adapter needs more");
  return warn(fact + ": registering memory with RDMA adapters fails",
              "ulimit -l unlimited, in the job's shell or /etc/security/limits.conf; for Slurm "
              "PropagateResourceLimits");
}

Finding ptrace(const Machine& machine) {
  std::string scope = machine.system.first_line("/proc/sys/kernel/yama/ptrace_scope");
  if (scope.empty()) return ok("processes of one user may read each other's memory: this kernel has no Yama");
  if (scope == "0") return ok("processes of one user may read each other's memory: ptrace_scope is 0");
  if (scope == "1")
    return ok(
        "processes may read the memory of those that allow it, as ranks of Open MPI and UCX do: ptrace_scope "
        "is 1");
  return warn(
      fmt::format(
          "no process may read another's memory, so MPIs copy host messages twice: ptrace_scope is {}",
          scope),
      "sysctl kernel.yama.ptrace_scope=1, as root");
}

// The kind of container, "" where none is seen.
std::string container(const System& system) {
  if (system.exists("/.dockerenv")) return "Docker";
  if (system.exists("/run/.containerenv")) return "Podman";
  for (const char* name : {"APPTAINER_NAME", "SINGULARITY_NAME"})
    if (std::string image = system.variable(name); !image.empty()) return "Apptainer";
  if (std::string kind = system.variable("container"); !kind.empty()) return kind;
  return holds(system.read("/proc/1/cgroup").value_or(""), "kubepods") ? "Kubernetes" : "";
}

Finding in_container(const Machine& machine) {
  std::string kind = container(machine.system);
  if (kind.empty()) return ok("no container is detected");
  std::vector<std::string> details;
  if (std::string map = machine.system.first_line("/proc/self/uid_map"); !map.empty())
    details.push_back("uid_map: " + map);
  if (kind == "Docker" || kind == "Kubernetes" || kind == "Podman") {
    bool may_trace = true;
    // CAP_SYS_PTRACE is bit 19.
    std::string set = value_of(machine.system.read("/proc/self/status").value_or(""), "CapBnd:");
    if (!set.empty()) may_trace = (std::strtoull(set.c_str(), nullptr, 16) >> 19) & 1;
    std::string fact =
        fmt::format("this is a container of {}{}", kind, may_trace ? "" : ", without CAP_SYS_PTRACE");
    if (!may_trace)
      return warn(fact + ": MPIs may not read memory of another rank",
                  "start it with --cap-add=SYS_PTRACE; keep all ranks of a node in one container, or give "
                  "them --pid=host --ipc=host",
                  details);
    return ok(fact + "; ranks of a node must be in one container, or share its PID and IPC namespaces",
              details);
  }
  return ok(
      fmt::format(
          "this is a container of {}, which shares the host's PID and IPC namespaces unless told otherwise",
          kind),
      details);
}

// The place of this process in the unified hierarchy, or "" in old ones.
std::string cgroup_folder(const System& system) {
  for (const std::string& line : lines_of(system.read("/proc/self/cgroup").value_or("")))
    if (line.rfind("0::", 0) == 0) return "/sys/fs/cgroup" + line.substr(3);
  return {};
}

Finding isolation(const Machine& machine) {
  constexpr const char* remedy =
      "let every rank of a node see all its GPUs (Slurm: --gpus-per-node=N in place of --gpus-per-task, or "
      "--gpu-bind=none), else {} between ranks may be refused and messages are staged";
  const System& system = machine.system;
  size_t bus = static_cast<size_t>(machine.gpus.on_bus), listed = machine.gpus.list.size();
  int nodes = 0;
  for (const std::string& name : system.list("/dev"))
    nodes += name.rfind("nvidia", 0) == 0 && name.size() > 6 &&
             name.find_first_not_of("0123456789", 6) == std::string::npos;
  if (has_nvidia(machine) && bus > listed && listed > 0)
    return warn(fmt::format("this process may open {} of {} GPUs ({} device file{})", listed, bus, nodes,
                            nodes == 1 ? "" : "s"),
                fmt::format(remedy, "CUDA IPC"));
  if (bus > listed && listed > 0)
    return warn(fmt::format("this process may open {} of {} GPUs", listed, bus), fmt::format(remedy, "IPC"));
  if (bus == 0) return skip("the PCI bus is hidden, so it is not known how many GPUs there are");
  return ok(bus == 1 ? "this process may open the one GPU of the PCI bus"
                     : fmt::format("this process may open all {} GPUs of the PCI bus", bus));
}

Finding memory(const Machine& machine) {
  const System& system = machine.system;
  std::string folder = cgroup_folder(system);
  std::string limit = folder.empty() ? system.first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes")
                                     : system.first_line(folder + "/memory.max");
  if (limit.empty() && !folder.empty())
    limit = system.first_line("/sys/fs/cgroup/memory.max");  // as a container sees its own
  std::string total = value_of(system.read("/proc/meminfo").value_or(""), "MemTotal:");
  uint64_t all = std::strtoull(total.c_str(), nullptr, 10) << 10;
  if (all == 0) return skip("/proc/meminfo does not report how much memory there is");
  uint64_t bytes = std::strtoull(limit.c_str(), nullptr, 10);
  if (limit.empty() || limit == "max" || bytes == 0 || bytes >= all)
    return ok(fmt::format("this process may use all {} of memory", size_in_words(all)));
  std::string fact =
      fmt::format("the control group allows {} of {} of memory", size_in_words(bytes), size_in_words(all));
  // A rank pins 64 MiB for staging, and as much for the network.
  if (bytes < 1ull << 30)
    return warn(fact + ": little for page-locked buffers of several ranks",
                "ask the scheduler for more, or lower FAIRLEAD_POOLS");
  return ok(fact);
}

}  // namespace

std::vector<Check> limit_checks() {
  return {
      {"limit.shm", "The size of /dev/shm, through which MPIs move messages inside a node.", "",
       "--ipc=host or --shm-size=8g for containers.", always, shared_memory},
      {"limit.memlock", "How much memory may be locked, which RDMA needs.", "", "ulimit -l unlimited.",
       always, locked_memory},
      {"limit.ptrace", "Whether ranks may read each other's memory (CMA).", "", "kernel.yama.ptrace_scope=1.",
       always, ptrace},
      {"limit.container", "Whether this is a container, and what it keeps from MPI.", "",
       "--cap-add=SYS_PTRACE; one container for all ranks of a node.", always, in_container},
      {"limit.gpus", "Whether this process may open all GPUs of the node.", "a GPU",
       "Let every rank see all GPUs of its node.", has_gpu, isolation},
      {"limit.memory", "The memory that the control group allows.", "", "Ask the scheduler for more.", always,
       memory},
  };
}

}  // namespace fairlead::tools::doctor
