// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/mix.h"
#include "mpi/abi/comm_self.h"
#include "mpi/core/engine.h"
#include "mpi/core/gather.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/info/memory_kinds.h"

namespace fairlead::mpi {
namespace {

int keyval = MPI_KEYVAL_INVALID;
int own_rank = 0;

struct Known {
  std::once_flag asked_for_ranks;
  std::vector<int> world_ranks;  // once somebody has asked for them
  uint64_t name = 0, children = 0;
  std::shared_ptr<MessageCounts> counts;
};
// MPI_COMM_WORLD has no attribute. (Never destroyed: threads may be in MPI calls when the process exits.)
auto& of_world = *new Known;
std::atomic<bool> names_known = true;

int forget(MPI_Comm, int, void* value, void*) {
  delete static_cast<Known*>(value);
  return MPI_SUCCESS;
}

// To translate the whole group at once may take a time with the square of the ranks (quirk slow_translation).
// Most communicators have their members in the order of the world: each member is looked for in the block of
// the world that holds the one before it, then in the blocks behind that.
void translate(MPI_Group members, MPI_Group world, std::vector<int>* world_ranks) {
  int size = 0, ranks = 0;
  PMPI_Group_size(members, &size);
  PMPI_Group_size(world, &ranks);
  const int block_size =
      std::clamp(ranks / 2, 1, 64);  // small jobs have two blocks at least, as large ones do
  std::vector<MPI_Group> blocks(static_cast<size_t>((ranks + block_size - 1) / block_size), MPI_GROUP_NULL);
  world_ranks->assign(static_cast<size_t>(size), -1);
  size_t block = 0;
  for (int member = 0; member < size; ++member) {
    for (size_t tried = 0; tried < blocks.size(); ++tried, block = (block + 1) % blocks.size()) {
      const int first = static_cast<int>(block) * block_size;
      int range[1][3] = {{first, std::min(first + block_size, ranks) - 1, 1}}, place = MPI_UNDEFINED;
      if (blocks[block] == MPI_GROUP_NULL) PMPI_Group_range_incl(world, 1, range, &blocks[block]);
      PMPI_Group_translate_ranks(members, 1, &member, blocks[block], &place);
      if (place == MPI_UNDEFINED) continue;
      (*world_ranks)[static_cast<size_t>(member)] = first + place;
      break;
    }
  }
  for (MPI_Group& made : blocks)
    if (made != MPI_GROUP_NULL) PMPI_Group_free(&made);
}

std::vector<int> find_world_ranks(MPI_Comm comm) {
  std::vector<int> ranks;
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  // Ranks of an inter-communicator may belong to processes that share no MPI_COMM_WORLD with this one.
  if (inter) return ranks;
  MPI_Group mine, world;
  PMPI_Comm_group(comm, &mine);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  translate(mine, world, &ranks);
  PMPI_Group_free(&mine);
  PMPI_Group_free(&world);
  return ranks;
}

Known& known_of(MPI_Comm comm) {
  if (comm == MPI_COMM_WORLD) return of_world;
  return *attribute_of<Known>(comm, keyval, [] { return new Known; });
}

const std::vector<int>& world_ranks_of(MPI_Comm comm) {
  Known& known = known_of(comm);
  std::call_once(known.asked_for_ranks, [&] { known.world_ranks = find_world_ranks(comm); });
  return known.world_ranks;
}

}  // namespace

int rank_in_world(MPI_Comm comm, int rank) {
  if (rank < 0 || !has_world() || comm == MPI_COMM_NULL) return -1;
  if (comm == MPI_COMM_WORLD) return rank;
  // A program may use MPI_COMM_SELF inside MPI_Finalize, when its attributes are already deleted.
  if (comm == MPI_COMM_SELF) return rank == 0 ? own_rank : -1;
  const std::vector<int>& ranks = world_ranks_of(comm);
  return rank < static_cast<int>(ranks.size()) ? ranks[static_cast<size_t>(rank)] : -1;
}

uint64_t name_of(MPI_Comm comm, std::shared_ptr<MessageCounts>** counts) {
  if (!has_world() || !names_known || comm == MPI_COMM_NULL || comm == MPI_COMM_SELF) return 0;
  Known& known = known_of(comm);
  *counts = &known.counts;
  return known.name;
}

void Naming::succeed(MPI_Comm made) {
  failed_ = false;
  if (!has_world() || parent_ == MPI_COMM_SELF) return;
  Known& parent = known_of(parent_);
  ++parent.children;
  if (parent.name != 0 && made != MPI_COMM_NULL) known_of(made).name = mixed(parent.name, parent.children);
}

void note_overtaking(MPI_Comm comm, MPI_Info info) {
  if (!has_world() || comm == MPI_COMM_NULL || info == MPI_INFO_NULL) return;
  char value[64] = {};
  int found = 0;
  PMPI_Info_get(info, "mpi_assert_allow_overtaking", sizeof value - 1, value, &found);
  if (found && std::strcmp(value, "false") != 0 && comm != MPI_COMM_SELF) known_of(comm).name = 0;
}

Naming::~Naming() {
  if (failed_) names_known = false;
}

void open_communicators(MPI_Comm world) {
  set_has_world(world != MPI_COMM_NULL);
  if (has_world()) PMPI_Comm_rank(world, &own_rank);
  of_world.name = 1;
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
  CallRecord record(Function::Comm_disconnect, together(comm ? *comm : MPI_COMM_NULL));
  if (comm) forget_recorded_comm(*comm);
  if (!comm || !intercepting()) return real.Comm_disconnect(comm);
  forget_assertion(object_id(*comm));
  for (Backoff backoff; has_messages_on(*comm); backoff.pause()) engine().progress();
  const int error = end_operations_on(*comm);
  gather_before(*comm);
  BlockingHostCall blocking_call;
  const int result = real.Comm_disconnect(comm);
  return result == MPI_SUCCESS ? error : result;
}
