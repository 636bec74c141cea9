// SPDX-License-Identifier: Apache-2.0

#include "run/binding.h"

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "base/output_file.h"
#include "base/small_file.h"
#include "common/command_line.h"
#include "common/provenance.h"
#include "common/visibility.h"
#include "run/local_ranks.h"
#include "run/nic/adapters.h"

namespace fairlead::tools {
namespace {

constexpr const char* between_entries = ", \t\r\n";
constexpr const char* accepted_maps =
    "accepted: GPUs by number or PCI address, as in 0,1,3,2 or 0-3, or a file that lists them";
const std::vector<std::string> policies = {"nearest", "round-robin", "compact", "spread"};

bool is_ordinal(const std::string& entry) {
  return entry.size() < 6 && entry.find_first_not_of("0123456789") == std::string::npos;
}

// "0000:1b:00.0", in any case, with or without the domain.
bool is_address(const std::string& entry) {
  return entry.size() >= 7 && entry.find(':') != std::string::npos && entry.find('.') != std::string::npos &&
         entry.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
}

std::string read_map_file(const std::string& path) {
  std::string content;
  if (std::string why = read_small_file(path, &content); !why.empty())
    throw usage(fmt::format(
        "--map: '{}' is neither a list of GPUs nor a file that can be read ({}); {}, as `fairlead "
        "matrix --map FILE` writes it",
        path, why, accepted_maps));
  std::istringstream lines(content);
  std::string text;
  for (std::string line; std::getline(lines, line);) text += line.substr(0, line.find('#')) + " ";
  return text;
}

// "0-3" or "3-0": the numbers between both; else the entry itself.
Words numbers_of(const std::string& entry) {
  const size_t dash = std::min(entry.find('-'), entry.size());
  const std::string first = entry.substr(0, dash), last = entry.substr(std::min(dash + 1, entry.size()));
  if (first.empty() || last.empty() || !is_ordinal(first) || !is_ordinal(last)) return {entry};
  Words numbers;
  const int end = std::stoi(last), step = std::stoi(first) <= end ? 1 : -1;
  for (int number = std::stoi(first); number != end + step; number += step)
    numbers.push_back(std::to_string(number));
  return numbers;
}

Words map_of(const std::string& text) {
  Words entries;
  for (const std::string& entry : split(text, between_entries))
    for (const std::string& each : numbers_of(entry)) {
      if (!is_ordinal(each) && !is_address(each)) return {};
      entries.push_back(each);
    }
  return entries;
}

// A comma with no GPU before it, or none behind.
bool lacks_entry(const std::string& text) {
  std::string entries = text;
  std::erase_if(entries, [](unsigned char c) { return std::isspace(c); });
  return !entries.empty() &&
         (entries.front() == ',' || entries.back() == ',' || entries.find(",,") != std::string::npos);
}

size_t gpu_of_map(const Topology& topology, const std::string& map, int local_rank) {
  Words entries = map_of(map);
  const std::string& entry = entries[static_cast<size_t>(local_rank) % entries.size()];
  for (size_t i = 0; i < topology.gpus.size(); ++i) {
    std::string pci = topology.gpus[i].pci, end = lower(entry);
    bool same = is_ordinal(entry) ? topology.gpus[i].ordinal == std::stoi(entry)
                                  : pci.size() >= end.size() && pci.substr(pci.size() - end.size()) == end;
    if (same) return i;
  }
  std::set<int> shown;
  for (const GpuPlace& gpu : topology.gpus) shown.insert(gpu.ordinal);
  throw usage(fmt::format(
      "--map: local rank {} is to take GPU {}, but {} shows this process {}; accepted: numbers or PCI "
      "addresses of these",
      local_rank, entry, host_name(), gpus_in_words(shown) + (shown.size() == 1 ? " alone" : "")));
}

// Those that share most cores with a rank; all of them where none shares any.
std::vector<size_t> candidates(const Topology& topology, const Cpus& cores) {
  std::vector<size_t> best;
  size_t most = 0;
  for (size_t i = 0; i < topology.gpus.size(); ++i) {
    size_t shared = common(topology.gpus[i].near, cores).size();
    if (shared > most) best.clear();
    most = std::max(most, shared);
    if (shared == most) best.push_back(i);
  }
  return best;
}

// These GPUs by their numbers, but those of a package together: each is followed by those that it reaches
// faster than all others. As they come where nothing tells of their links.
std::vector<size_t> packages_together(const Topology& topology, const std::vector<size_t>& gpus) {
  if (topology.gb_s.side() == 0) return gpus;
  std::vector<size_t> ordered;
  auto placed = [&](size_t gpu) { return std::count(ordered.begin(), ordered.end(), gpu) > 0; };
  for (size_t gpu : gpus) {
    if (placed(gpu)) continue;
    ordered.push_back(gpu);
    double most = 0, least = std::numeric_limits<double>::max();
    for (size_t other : gpus)
      if (other != gpu) {
        most = std::max(most, topology.gb_s.at(gpu, other));
        least = std::min(least, topology.gb_s.at(gpu, other));
      }
    for (size_t other : gpus)
      if (!placed(other) && most > least && topology.gb_s.at(gpu, other) == most) ordered.push_back(other);
  }
  return ordered;
}

struct Given {
  std::vector<size_t> gpus;  // of each local rank, as far as they are known
  std::vector<Cpus> cores;   // the same
};

// Where the others' cores are not known, each rank decides by its own; where their number is not known
// either, as if they were as many as the GPUs.
Given give(const BindingArguments& arguments, const Topology& topology, const Job& job) {
  const bool by_cores = arguments.map.empty() && (arguments.policy.empty() || arguments.policy == "nearest");
  int known = std::max(job.local_size, job.local_rank + 1);
  Given given;
  if (by_cores && topology.bound()) {
    given.cores = cpus_of_local_ranks(job, topology.mine);
    if (!given.cores.empty()) {
      given.gpus = gpus_nearest(topology, given.cores);
      return given;
    }
    std::vector<size_t> near = candidates(topology, topology.mine);
    if (near.size() > 1 && job.local_rank == 0)
      std::fprintf(stderr,
                   "fairlead exec: not all ranks of %s reported their cores in time; they take the GPUs that "
                   "are equally near in turn\n",
                   host_name().c_str());
    given.gpus.assign(static_cast<size_t>(known), near[static_cast<size_t>(job.local_rank) % near.size()]);
    return given;
  }
  const std::string policy = by_cores ? "compact" : arguments.policy;
  std::vector<size_t> turns(topology.gpus.size());
  std::iota(turns.begin(), turns.end(), 0);
  if (policy != "round-robin") turns = packages_together(topology, turns);
  for (int rank = 0; rank < known; ++rank)
    given.gpus.push_back(
        !arguments.map.empty()
            ? gpu_of_map(topology, arguments.map, rank)
            : turns[gpu_by_turns(policy, rank, job.local_size < 0 ? int(turns.size()) : job.local_size,
                                 turns.size())]);
  return given;
}

// This rank's share of the cores near its GPU: ranks whose GPUs are near the same cores divide them.
Cpus cores_near(const Topology& topology, const Given& given, const Job& job) {
  const auto mine = static_cast<size_t>(job.local_rank);
  const GpuPlace& gpu = topology.gpus[given.gpus[mine]];
  Cpus near = common(gpu.near, topology.mine);
  if (near.empty())
    throw usage(
        fmt::format("--bind-cores: none of the cores {} that the launcher gave local rank {} is near GPU {} "
                    "(cores {}); do not bind the ranks, or omit --bind-cores",
                    to_text(topology.mine), job.local_rank, gpu.ordinal, to_text(gpu.near)));
  if (topology.bound()) return near;
  if (job.local_size < 0)
    throw usage(
        fmt::format("--bind-cores: {} does not report how many ranks share this node; let it bind them, and "
                    "omit --bind-cores",
                    job.launcher));
  size_t sharers = 0, place = 0;
  for (size_t rank = 0; rank < given.gpus.size(); ++rank) {
    if (rank == mine) place = sharers;
    sharers += topology.gpus[given.gpus[rank]].near == gpu.near;
  }
  std::vector<Cpus> cores;
  for (const Cpus& core : topology.cores)
    if (Cpus threads = common(core, near); !threads.empty()) cores.push_back(threads);
  if (cores.empty())
    for (int cpu : near) cores.push_back({cpu});
  Cpus share;
  size_t first = place * cores.size() / sharers, end = (place + 1) * cores.size() / sharers;
  for (size_t i = first; i < std::max(end, first + 1); ++i) share.insert(cores[i].begin(), cores[i].end());
  return share;
}

// Simulated GPUs are all there for everybody.
void hide_all_but(const GpuPlace& gpu, const Topology& topology) {
  const auto [variable, entry] =
      show_only(fairlead_device_provider(), this_environment(), gpu.ordinal, int(topology.gpus.size()));
  if (!variable.empty()) setenv(variable.c_str(), entry.c_str(), 1);
}

std::string description(const Topology& topology, const GpuPlace& gpu) {
  std::string words = fmt::format("GPU {} {} NUMA {}", gpu.ordinal, gpu.pci, topology.numa_of(gpu.near));
  if (gpu.pcie_gb_s > 0) words += fmt::format(" {:.0f} GB/s", gpu.pcie_gb_s);
  return words;
}

std::string all_gpus(size_t count) {
  return count == 0 ? "no GPU" : count == 1 ? "the only GPU" : fmt::format("all {} GPUs", count);
}

// The adapter that a rank is given, and the variables that name it.
struct GivenNic {
  Adapter adapter;
  Distance distance;
  std::string kept;  // "UCX_NET_DEVICES=mlx5_3:1": what the user had set; "" where nothing was
};

// Of the adapters that are equally near, ranks take turns with those before them that have the same choice.
std::optional<GivenNic> bind_nic(const Topology& topology, const Given& given, const Job& job) {
  const Sysfs sys = this_sysfs();
  const std::vector<Adapter> all = usable_adapters(sys);
  if (all.empty()) {
    if (job.local_rank == 0)
      std::fprintf(
          stderr,
          "fairlead exec: --bind-nic: %s has no network adapter with an active port; none is chosen\n",
          host_name().c_str());
    return std::nullopt;
  }
  auto near_rank = [&](size_t rank) {
    return nearest_adapters(sys, all, topology.gpus[given.gpus[rank]].pci);
  };
  const auto mine = static_cast<size_t>(job.local_rank);
  const NearAdapters near = near_rank(mine);
  size_t turn = 0;
  for (size_t rank = 0; rank < mine; ++rank)
    turn += near_rank(rank).list.front().text() == near.list.front().text();
  GivenNic nic{near.list[turn % near.list.size()], near.distance, ""};
  for (const auto& [name, value] : variables_for(nic.adapter))
    if (const char* set = std::getenv(name.c_str()))
      nic.kept += fmt::format("{}{}={}", nic.kept.empty() ? "" : " ", name, set);
    else
      setenv(name.c_str(), value.c_str(), 1);
  return nic;
}

std::string description(const GivenNic& nic) {
  return fmt::format(" NIC {} {}{}", nic.adapter.text(), to_string(nic.distance),
                     nic.kept.empty() ? "" : fmt::format(", but {} is set", nic.kept));
}

void print(const Topology& topology, const Job& job, bool is_rank, const Cpus& cores, const GpuPlace* gpu,
           const std::optional<GivenNic>& nic) {
  std::fprintf(stderr, "%s\n",
               fmt::format("{} {} {} local {} cores {} NUMA {} {}{}", is_rank ? "rank" : "task", job.rank,
                           host_name(), job.local_rank, to_text(cores), topology.numa_of(cores),
                           gpu ? description(topology, *gpu) : all_gpus(topology.gpus.size()),
                           nic ? description(*nic) : "")
                   .c_str());
}

nlohmann::ordered_json to_json(const Topology& topology, const Job& job, bool is_rank, const Cpus& cores,
                               const GpuPlace* gpu, const std::optional<GivenNic>& nic) {
  nlohmann::ordered_json json = {{is_rank ? "rank" : "task", job.rank},
                                 {"host", host_name()},
                                 {"local_rank", job.local_rank},
                                 {"cores", to_text(cores)},
                                 {"numa", topology.numa_of(cores)},
                                 {"gpus", topology.gpus.size()},
                                 {"gpu", nullptr}};
  if (gpu) {
    json["gpu"] = {{"ordinal", gpu->ordinal}, {"pci", gpu->pci}, {"numa", topology.numa_of(gpu->near)}};
    if (gpu->pcie_gb_s > 0) json["gpu"]["pcie_gb_s"] = gpu->pcie_gb_s;
  }
  if (nic) json["nic"] = {{"name", nic->adapter.text()}, {"distance", to_string(nic->distance)}};
  return json;
}

void write_binding(std::string file, int rank, const nlohmann::ordered_json& json) {
  constexpr std::string_view place = "{rank}";
  if (size_t at = file.find(place); at != std::string::npos)
    file.replace(at, place.size(), std::to_string(rank));
  // What runs is worth more than what is told of it.
  if (const std::string why = write_file(file, json.dump() + "\n"); !why.empty())
    std::fprintf(stderr, "fairlead exec: --json: cannot write %s: %s\n", file.c_str(), why.c_str());
}

}  // namespace

bool is_map(const std::string& text) {
  return !map_of(text).empty();
}

void define_binding(CLI::App& app, BindingArguments& arguments) {
  app.add_flag("--visible", arguments.visible,
               "Make only one GPU visible to each rank, for programs that do not choose one. --gpu, --map, "
               "--bind-cores and --bind-nic do so, too.");
  app.add_option(
         "--gpu", arguments.policy,
         "Which GPU a rank gets. nearest: the one nearest to the rank's cores; ranks with several "
         "equally near GPUs take them in turn. round-robin: the local rank modulo the number of GPUs. "
         "compact: neighbouring ranks get the same or the next GPU, preferably of the same package. "
         "spread: GPUs as far apart as possible. With --visible alone: nearest.")
      ->type_name("POLICY")
      ->check(one_of(policies));
  app.add_option("--map", arguments.map,
                 "The GPU of each local rank, by number or PCI address, as in 0,1,3,2 or 0-3; or a file that "
                 "lists them, as `fairlead matrix` writes it. The list starts over if there are more ranks.")
      ->type_name("GPU,...|FILE")
      ->check(CLI::Validator(
          [](const std::string& text) {
            bool lacking = text.empty() || lacks_entry(text);
            return lacking ? fmt::format("'{}' leaves a GPU out; {}", text, accepted_maps) : std::string();
          },
          ""));
  app.add_flag("--bind-cores", arguments.bind_cores,
               "Bind each rank to its share of the cores near its GPU.");
  app.add_flag("--bind-nic", arguments.bind_nic,
               "Let each rank use only the network adapter nearest to its GPU: set UCX_NET_DEVICES and "
               "libfabric's FI_VERBS_DEVICE_NAME, FI_CXI_DEVICE_NAME or FI_EFA_IFACE, unless they are set.");
  app.add_flag("--print-binding", arguments.print,
               "Print on stderr, for each rank, its cores, its GPU and the adapter that --bind-nic chose.");
}

void check_binding(BindingArguments& arguments) {
  if (arguments.map.empty()) return;
  if (!arguments.policy.empty())
    throw usage("--map and --gpu exclude each other: a map already chooses the GPUs");
  if (!map_of(arguments.map).empty()) return;
  std::string file = arguments.map;
  std::string text = read_map_file(file);
  Words entries = map_of(text);
  if (entries.empty() || lacks_entry(text))
    throw usage(fmt::format(
        "--map: {} does not list GPUs; accepted: numbers or PCI addresses, with blanks or a comma between",
        file));
  arguments.map.clear();
  for (const std::string& entry : entries) arguments.map += (arguments.map.empty() ? "" : ",") + entry;
}

Words to_words(const BindingArguments& arguments) {
  Words words;
  if (arguments.visible) words.push_back("--visible");
  if (!arguments.policy.empty()) words.insert(words.end(), {"--gpu", arguments.policy});
  if (!arguments.map.empty()) words.insert(words.end(), {"--map", arguments.map});
  if (arguments.bind_cores) words.push_back("--bind-cores");
  if (arguments.bind_nic) words.push_back("--bind-nic");
  if (arguments.print) words.push_back("--print-binding");
  if (!arguments.json.empty()) words.insert(words.end(), {"--json", arguments.json});
  return words;
}

std::vector<size_t> gpus_nearest(const Topology& topology, const std::vector<Cpus>& cores) {
  std::map<std::vector<size_t>, std::vector<size_t>> groups;  // ranks by what is near them
  for (size_t rank = 0; rank < cores.size(); ++rank)
    groups[candidates(topology, cores[rank])].push_back(rank);
  std::vector<size_t> given(cores.size());
  for (auto& [near, ranks] : groups) {
    // In the order of their cores: machines number both alike.
    std::stable_sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) { return cores[a] < cores[b]; });
    const std::vector<size_t> ordered = packages_together(topology, near);
    for (size_t i = 0; i < ranks.size(); ++i)
      given[ranks[i]] = ordered[gpu_by_turns("compact", int(i), int(ranks.size()), ordered.size())];
  }
  return given;
}

size_t gpu_by_turns(const std::string& policy, int local_rank, int ranks, size_t gpus) {
  const auto rank = static_cast<size_t>(local_rank),
             all = static_cast<size_t>(std::max(ranks, local_rank + 1));
  bool divide = (policy == "compact" && all > gpus) || (policy == "spread" && all < gpus);
  return divide ? rank * gpus / all : rank % gpus;
}

void bind_rank(const BindingArguments& arguments, bool is_rank) {
  if (!arguments.gives_gpu() && !arguments.print && arguments.json.empty()) return;
  auto job = job_from_environment();
  if (!job || job->local_rank < 0)
    throw usage(
        fmt::format("no launcher has told this process which rank of its node it is, {}; start it with "
                    "mpirun, mpiexec, srun or flux",
                    arguments.gives_gpu() ? "so no GPU can be chosen for it"
                    : arguments.print     ? "which --print-binding says"
                                          : "which --json writes"));
  Topology topology = read_topology();
  Cpus cores = topology.mine;
  const GpuPlace* gpu = nullptr;
  std::optional<GivenNic> nic;
  if (arguments.gives_gpu()) {
    if (topology.gpus.empty())
      throw cannot_run(fmt::format("no GPU found on {}; FAIRLEAD_DEVICE=sim simulates GPUs", host_name()));
    Given given = give(arguments, topology, *job);
    gpu = &topology.gpus[given.gpus[static_cast<size_t>(job->local_rank)]];
    hide_all_but(*gpu, topology);
    if (arguments.bind_cores) {
      cores = cores_near(topology, given, *job);
      bind_to(cores);
    }
    if (arguments.bind_nic) nic = bind_nic(topology, given, *job);
  }
  if (arguments.print) print(topology, *job, is_rank, cores, gpu, nic);
  if (!arguments.json.empty())
    write_binding(arguments.json, job->rank, to_json(topology, *job, is_rank, cores, gpu, nic));
}

}  // namespace fairlead::tools
