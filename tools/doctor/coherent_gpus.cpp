// SPDX-License-Identifier: Apache-2.0
//
// More of area `gpu`, for NVIDIA GPUs whose memory others share: the CPU, to which it is a NUMA node (GH200,
// GB200), and GPUs of other nodes, through NVLink and the daemon IMEX.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "doctor/check.h"
#include "run/cpus.h"

namespace fairlead::tools::doctor {
namespace {

bool has_memory_nodes(const Machine& machine) {
  return std::any_of(machine.gpus.list.begin(), machine.gpus.list.end(),
                     [](const Gpu& gpu) { return gpu.memory_node >= 0; });
}

// "bind:1", "prefer (many):0-1" of the first mapping, which has the policy of the process; "default" where it
// has none.
std::string memory_policy(const System& system) {
  const std::string mapping = system.first_line("/proc/self/numa_maps");
  const size_t start = mapping.find(' '), colon = mapping.find(':');
  if (start == std::string::npos) return "";
  const size_t end = mapping.find(' ', colon == std::string::npos ? start + 1 : colon);
  return mapping.substr(start + 1, end - start - 1);
}

Finding memory_nodes(const Machine& machine) {
  std::vector<std::string> nodes;
  Cpus of_gpus;
  for (const Gpu& gpu : machine.gpus.list) {
    if (gpu.memory_node < 0) continue;
    of_gpus.insert(gpu.memory_node);
    nodes.push_back(fmt::format("{} of GPU {}", gpu.memory_node, gpu.index));
  }
  const std::string policy = memory_policy(machine.system);
  const size_t colon = policy.find(':');
  const Cpus chosen = colon == std::string::npos ? Cpus() : cpus_of(policy.substr(colon + 1));
  std::string fact = fmt::format("NUMA nodes are memory of GPUs: {}", fmt::join(nodes, ", "));
  if (std::any_of(chosen.begin(), chosen.end(), [&](int node) { return of_gpus.count(node) > 0; }))
    return warn(
        fmt::format("{}; the memory policy of this process, {}, may put host buffers there", fact, policy),
        "numactl --membind with the nodes of CPUs only, or no numactl");
  if (std::atoi(machine.system.first_line("/proc/sys/kernel/numa_balancing").c_str()) & 1)
    return warn(
        fact + "; the kernel moves pages between nodes (NUMA balancing), which stops GPUs that use them",
        "sysctl kernel.numa_balancing=0, as NVIDIA advises for these machines");
  return ok(fmt::format("{}; host buffers go to nodes of CPUs", fact));
}

constexpr char no_cluster[] = "00000000-0000-0000-0000-000000000000";
bool is_in_a_domain(const Gpu& gpu) {
  return gpu.cluster.find('-') != std::string::npos && gpu.cluster != no_cluster;
}
bool in_a_domain(const Machine& machine) {
  return std::any_of(machine.gpus.list.begin(), machine.gpus.list.end(), is_in_a_domain);
}

Finding domain(const Machine& machine) {
  const Gpu& gpu = *std::find_if(machine.gpus.list.begin(), machine.gpus.list.end(), is_in_a_domain);
  const std::string fact = fmt::format("GPUs of NVLink domain {}, clique {}", gpu.cluster, gpu.clique);
  if (machine.system.list("/dev/nvidia-caps-imex-channels").empty())
    return warn(fact + ": no IMEX channel, so GPUs of other nodes are reached through the network only",
                "nvidia-modprobe -i 0:1, or NVreg_CreateImexChannel0=1 for the driver; containers: give them "
                "/dev/nvidia-caps-imex-channels");
  if (machine.system.program("nvidia-imex-ctl").empty())
    return warn(
        fact + ": there are IMEX channels, but not nvidia-imex-ctl, which says whether its daemon runs",
        "install nvidia-imex, and start it on every node of the domain");
  const std::string state = trimmed(machine.system.run({"nvidia-imex-ctl", "-q"}).value_or(""));
  if (state != "READY")
    return warn(
        fmt::format("{}: the IMEX daemon is not ready: {}", fact, state.empty() ? "no answer" : state),
        "start nvidia-imex on every node of the domain, with all of them in nodes_config.cfg");
  return ok(fact +
            ": IMEX is ready; long messages of virtual memory with fabric handles move by NVLink, all others "
            "through the network");
}

}  // namespace

std::vector<Check> coherent_checks() {
  return {
      {"gpu.nodes", "NUMA nodes that are memory of GPUs, and whether host buffers go there.",
       "GPUs whose memory is a NUMA node", "numactl --membind with the nodes of CPUs only.", has_memory_nodes,
       memory_nodes},
      {"gpu.domain", "Whether GPUs of several nodes can share memory: IMEX, its daemon and channels.",
       "GPUs of an NVLink domain", "Start nvidia-imex on every node.", in_a_domain, domain},
  };
}

}  // namespace fairlead::tools::doctor
