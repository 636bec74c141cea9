// SPDX-License-Identifier: Apache-2.0

#include "mpi/communicator.h"

#include <mutex>
#include <numeric>
#include <vector>

#include "mpi/engine.h"

namespace fairlead::mpi {
namespace {

int keyval = MPI_KEYVAL_INVALID;

using NodeRanks = std::vector<int>;

int forget(MPI_Comm, int, void* value, void*) {
  delete static_cast<NodeRanks*>(value);
  return MPI_SUCCESS;
}

NodeRanks* find_node_ranks(MPI_Comm comm) {
  auto ranks = new NodeRanks;
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  // Ranks of an inter-communicator may belong to processes that share no MPI_COMM_WORLD with us.
  if (inter || !engine().node()) return ranks;
  MPI_Group mine, world;
  PMPI_Comm_group(comm, &mine);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  int size = 0;
  PMPI_Group_size(mine, &size);
  std::vector<int> own(size), in_world(size);
  std::iota(own.begin(), own.end(), 0);
  PMPI_Group_translate_ranks(mine, size, own.data(), world, in_world.data());
  PMPI_Group_free(&mine);
  PMPI_Group_free(&world);
  for (int rank : in_world)
    ranks->push_back(rank == MPI_UNDEFINED ? -1 : engine().node()->node_rank_of_world(rank));
  return ranks;
}

}  // namespace

int node_rank(MPI_Comm comm, int rank) {
  if (!engine().node() || rank < 0) return -1;
  if (comm == MPI_COMM_WORLD) return engine().node()->node_rank_of_world(rank);
  static auto& mutex = *new std::mutex;
  std::lock_guard lock(mutex);  // a second set_attr would delete what another thread reads
  NodeRanks* ranks = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, keyval, &ranks, &found);
  if (!found) {
    ranks = find_node_ranks(comm);
    PMPI_Comm_set_attr(comm, keyval, ranks);
  }
  return rank < static_cast<int>(ranks->size()) ? (*ranks)[rank] : -1;
}

void open_communicators() {
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, nullptr);
}

void close_communicators() {
  if (keyval != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&keyval);
}

}  // namespace fairlead::mpi
