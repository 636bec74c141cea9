// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/communicator.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "mpi/abi/comm_self.h"
#include "mpi/core/engine.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"

namespace fairlead::mpi {
namespace {

int keyval = MPI_KEYVAL_INVALID;
int own_rank = 0;

using WorldRanks = std::vector<int>;

int forget(MPI_Comm, int, void* value, void*) {
  delete static_cast<WorldRanks*>(value);
  return MPI_SUCCESS;
}

WorldRanks* find_world_ranks(MPI_Comm comm) {
  auto ranks = new WorldRanks;
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  // Ranks of an inter-communicator may belong to processes that share no MPI_COMM_WORLD with this one.
  if (inter) return ranks;
  MPI_Group mine, world;
  PMPI_Comm_group(comm, &mine);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  int size = 0;
  PMPI_Group_size(mine, &size);
  std::vector<int> own(size);
  std::iota(own.begin(), own.end(), 0);
  ranks->resize(size);
  PMPI_Group_translate_ranks(mine, size, own.data(), world, ranks->data());
  PMPI_Group_free(&mine);
  PMPI_Group_free(&world);
  std::replace(ranks->begin(), ranks->end(), int{MPI_UNDEFINED}, -1);
  return ranks;
}

}  // namespace

int rank_in_world(MPI_Comm comm, int rank) {
  if (rank < 0 || !has_world()) return -1;
  if (comm == MPI_COMM_WORLD) return rank;
  // A program may use MPI_COMM_SELF inside MPI_Finalize, when its attributes are already deleted.
  if (comm == MPI_COMM_SELF) return rank == 0 ? own_rank : -1;
  WorldRanks* ranks = attribute_of<WorldRanks>(comm, keyval, [&] { return find_world_ranks(comm); });
  return rank < static_cast<int>(ranks->size()) ? (*ranks)[rank] : -1;
}

void open_communicators(MPI_Comm world) {
  set_has_world(world != MPI_COMM_NULL);
  if (has_world()) PMPI_Comm_rank(world, &own_rank);
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, nullptr);
}

void close_communicators() {
  if (keyval != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&keyval);
}

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

static bool has_messages_on(MPI_Comm comm) {
  return std::ranges::any_of(all_hooks(), [comm](const Hooks& hooks) {
    return hooks.has_messages_on && hooks.has_messages_on(comm);
  });
}

// "Waits for all pending communication to complete internally" (MPI 4.1, 11.10.4). Sends that are complete
// for the program may still be in flight, and the host MPI does not progress them inside its call.
FAIRLEAD_MPI(Comm_disconnect, (MPI_Comm * comm)) {
  CallRecord record(Function::Comm_disconnect);
  if (!intercepting()) return real.Comm_disconnect(comm);
  for (Backoff backoff; has_messages_on(*comm); backoff.pause()) engine().progress();
  BlockingHostCall blocking_call;
  return real.Comm_disconnect(comm);
}
