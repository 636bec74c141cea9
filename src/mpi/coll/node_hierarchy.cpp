// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/node_hierarchy.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "mpi/abi/real.h"
#include "mpi/coll/agreement.h"
#include "mpi/core/interception.h"
#include "mpi/failures/failures.h"

namespace fairlead::mpi {

namespace {

// The program needs most communicators: quirk few_communicators.
constexpr int most_hierarchies = 64;
std::atomic<int> hierarchies{0};
constexpr int none_left = -1;

}  // namespace

NodeHierarchy::NodeHierarchy(MPI_Comm comm, int first_of_node) {
  if (hierarchies.fetch_add(1) >= most_hierarchies) first_of_node = none_left;
  BlockingHostCall blocking_call;
  int rank = 0, size = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  std::vector<int> first_of(static_cast<size_t>(size));
  real.Allgather(&first_of_node, 1, MPI_INT, first_of.data(), 1, MPI_INT, comm);
  if (std::ranges::count(first_of, none_left) > 0) return;

  std::map<int, std::vector<int>> nodes;
  for (int member = 0; member < size; ++member)
    nodes[first_of[static_cast<size_t>(member)]].push_back(member);
  for (const auto& [first, node] : nodes) add_groups(node);
  slices_ = size;
  node_of_.resize(static_cast<size_t>(size));
  local_rank_of_.resize(static_cast<size_t>(size));
  for (size_t node = 0; node < members_.size(); ++node) {
    slices_ = std::min(slices_, static_cast<int>(members_[node].size()));
    regular_ &= members_[node].size() == members_[0].size();
    for (size_t local = 0; local < members_[node].size(); ++local) {
      const auto member = static_cast<size_t>(members_[node][local]);
      node_of_[member] = static_cast<int>(node);
      local_rank_of_[member] = static_cast<int>(local);
    }
  }
  my_node_ = node_of(rank);
  my_local_rank_ = local_rank_of(rank);
  if (members_.size() == 1) return;
  int made = make_communicators(comm);
  real.Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_MIN, comm);
  usable_ = made;
}

// As few groups as can have a collective slot, of equal length within one.
void NodeHierarchy::add_groups(const std::vector<int>& node) {
  const auto most = static_cast<size_t>(node_limits().members);
  const size_t groups = (node.size() + most - 1) / most;
  for (size_t group = 0; group < groups; ++group)
    members_.emplace_back(node.begin() + static_cast<ptrdiff_t>(group * node.size() / groups),
                          node.begin() + static_cast<ptrdiff_t>((group + 1) * node.size() / groups));
}

bool NodeHierarchy::make_communicators(MPI_Comm comm) {
  int color = has_slice() ? my_local_rank_ : MPI_UNDEFINED;
  // Not MPI_Comm_dup: it would call the program's attribute copy functions.
  const auto split = [comm](int of_color, int key, MPI_Comm* made) {
    return adopt(real.Comm_split(comm, of_color, key, made), made) == MPI_SUCCESS;
  };
  bool made = split(0, 0, &all_);
  made &= split(my_node_, my_local_rank_, &node_);
  for (ExchangeComm* exchange : {&spreading, &collecting}) made &= split(color, my_node_, &exchange->comm);
  return made;
}

NodeHierarchy::~NodeHierarchy() {
  hierarchies.fetch_sub(1);
  for (MPI_Comm* each : {&collecting.comm, &spreading.comm, &node_, &all_}) free_own(each);
}

}  // namespace fairlead::mpi
