// SPDX-License-Identifier: Apache-2.0
//
// Chooses GPU, cores and network adapter of each rank of a node: the policies of `fairlead run` and `fairlead
// exec`.

#pragma once

#include <string>
#include <vector>

#include "base/launched_job.h"
#include "common/words.h"
#include "run/topology.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct BindingArguments {
  bool visible = false;
  std::string policy;  // "" for the usual one
  std::string map;     // GPUs by local rank, or the file that lists them
  bool bind_cores = false;
  bool bind_nic = false;
  bool print = false;
  std::string json;  // file for what is printed; "{rank}" in it becomes the rank

  // Is a rank given a GPU of its own?
  bool gives_gpu() const { return visible || !policy.empty() || !map.empty() || bind_cores || bind_nic; }
};

// Is this a list of GPUs, as of --map, and not the name of a file?
bool is_map(const std::string& text);

void define_binding(CLI::App& app, BindingArguments& arguments);

// Throws a usage Failure where they contradict each other; a file takes the place of its name.
void check_binding(BindingArguments& arguments);

// The words by which `fairlead exec` is told the same.
Words to_words(const BindingArguments& arguments);

// A place in Topology::gpus for each local rank. `cores` are theirs, empty where they are not known; `ranks`
// of them are on this node.
std::vector<size_t> gpus_nearest(const Topology& topology, const std::vector<Cpus>& cores);
size_t gpu_by_turns(const std::string& policy, int local_rank, int ranks, size_t gpus);

// Binds this process, which is about to become a rank: one GPU visible, the cores and the adapter near it,
// and a line on stderr that tells, each where it is asked for. Where MPI may not know it as this rank, it is
// called a task.
void bind_rank(const BindingArguments& arguments, bool is_rank);

}  // namespace fairlead::tools
