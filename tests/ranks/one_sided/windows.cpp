// SPDX-License-Identifier: Apache-2.0
//
// Windows: what they tell of themselves, whatever memory they are of; their errors; and that put and get
// reach every kind of memory from every other, and touch nothing else.

#include <tuple>

#include "harness/exposed.h"

using namespace ranks;

namespace {

int next() {
  return (rank + 1) % size;
}
int previous() {
  return (rank + size - 1) % size;
}

void* base_of(MPI_Win window) {
  void* base = nullptr;
  int found = 0;
  MUST(MPI_Win_get_attr(window, MPI_WIN_BASE, &base, &found));
  EXPECT(found, "a window has no MPI_WIN_BASE");
  return base;
}

template <class Value>
Value attribute_of(MPI_Win window, int keyval) {
  Value* value = nullptr;
  int found = 0;
  MUST(MPI_Win_get_attr(window, keyval, &value, &found));
  EXPECT(found && value, "an attribute of the window is missing");
  return found && value ? *value : Value{};
}

}  // namespace

RANK_TEST(windows, tell_what_they_are_made_of, 1) {
  for (Place place : all_places) {
    const size_t bytes = 4096 + 8 * static_cast<size_t>(rank);
    Exposed exposed(place, bytes, 8);
    EXPECT(base_of(exposed) == exposed.memory().data(), "%s: another base", to_string(place));
    EXPECT(attribute_of<MPI_Aint>(exposed, MPI_WIN_SIZE) == static_cast<MPI_Aint>(bytes), "%s: another size",
           to_string(place));
    EXPECT(attribute_of<int>(exposed, MPI_WIN_DISP_UNIT) == 8, "%s: another unit", to_string(place));
    EXPECT(attribute_of<int>(exposed, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_CREATE, "%s: another flavor",
           to_string(place));
    const int model = attribute_of<int>(exposed, MPI_WIN_MODEL);
    EXPECT(model == MPI_WIN_UNIFIED || model == MPI_WIN_SEPARATE, "%s: model %d", to_string(place), model);
    MPI_Group group, world;
    MUST(MPI_Win_get_group(exposed, &group));
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
    int same = MPI_UNEQUAL;
    MUST(MPI_Group_compare(group, world, &same));
    EXPECT(same == MPI_IDENT, "%s: another group", to_string(place));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Group_free(&world));
    char name[MPI_MAX_OBJECT_NAME];
    int length = 0;
    MUST(MPI_Win_set_name(exposed, "halo"));
    MUST(MPI_Win_get_name(exposed, name, &length));
    EXPECT(std::string(name) == "halo", "%s: another name", to_string(place));
  }
}

// The program's functions that delete attributes are called while the window is.
RANK_TEST(windows, tell_where_they_are_while_they_are_freed, 1) {
  static void* told;
  const auto ask = [](MPI_Win window, int, void*, void*) -> int {
    told = base_of(window);
    return MPI_SUCCESS;
  };
  int keyval;
  MUST(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, ask, &keyval, nullptr));
  for (Place place : host_and_device) {
    void* base = nullptr;
    {
      Exposed exposed(place, 4096);
      base = exposed.memory().data();
      MUST(MPI_Win_set_attr(exposed, keyval, nullptr));
      told = nullptr;
    }
    EXPECT(told == base, "%s: %p, not %p", to_string(place), told, base);
  }
  MUST(MPI_Win_free_keyval(&keyval));
}

RANK_TEST(windows, put_and_get_between_all_places, 1) {
  constexpr size_t sizes[] = {1, 4096, 100001}, largest = 100001;
  for (Place target : all_places) {
    Exposed exposed(target, largest + 64);
    MUST(MPI_Win_fence(0, exposed));
    for (Place origin : all_places) {
      for (size_t bytes : sizes) {
        const auto count = static_cast<int>(bytes);
        Memory put(origin, bytes, 16), got(origin, bytes, 16);
        put.fill(key_of(1, static_cast<uint64_t>(rank)));
        exposed.memory().clear();
        MUST(MPI_Win_fence(0, exposed));
        MUST(MPI_Put(put, count, MPI_BYTE, next(), 32, count, MPI_BYTE, exposed));
        MUST(MPI_Win_fence(0, exposed));
        MUST(MPI_Get(got, count, MPI_BYTE, next(), 32, count, MPI_BYTE, exposed));
        MUST(MPI_Win_fence(0, exposed));
        EXPECT_HOLDS(got, key_of(1, static_cast<uint64_t>(rank)), bytes);
        std::vector<char> wanted(largest + 64, static_cast<char>(guard_byte));
        write_pattern(key_of(1, static_cast<uint64_t>(previous())), wanted.data() + 32, bytes);
        std::string why;
        EXPECT(exposed.memory().holds(wanted, &why), "%s to %s, %zu bytes: %s", to_string(origin),
               to_string(target), bytes, why.c_str());
        MUST(MPI_Win_fence(0, exposed));
      }
    }
  }
}

RANK_TEST(windows, of_device_host_and_no_memory_on_different_ranks, 2) {
  const Place place = rank % 2 == 0 ? Place::device : Place::host;
  const bool empty = size > 2 && rank == 2;
  constexpr int count = 1000;
  Exposed exposed(place, empty ? 0 : count * sizeof(int), sizeof(int));
  for (Place origin : host_and_device) {
    const Memory mine = memory_of(origin, std::vector<int>(count, 100 + rank));
    Memory got(origin, count * sizeof(int));
    MUST(MPI_Win_fence(0, exposed));
    if (!(size > 2 && next() == 2)) MUST(MPI_Put(mine, count, MPI_INT, next(), 0, count, MPI_INT, exposed));
    MUST(MPI_Win_fence(0, exposed));
    if (!empty) {
      const std::vector<int> wanted(count, 100 + previous());
      EXPECT(exposed.values<int>() == wanted, "put from %s", to_string(origin));
    }
    const int asked = size > 2 && next() == 2 ? rank : next();
    if (asked != rank) MUST(MPI_Get(got, count, MPI_INT, asked, 0, count, MPI_INT, exposed));
    MUST(MPI_Win_fence(0, exposed));
    if (asked != rank)
      EXPECT(value_in<int>(got, count - 1) == 100 + rank, "got %d", value_in<int>(got, count - 1));
  }
}

RANK_TEST(windows, displacements_out_of_range_are_errors, 2) {
  // Host MPIs look at no displacement.
  if (host_oracle) return;
  Exposed exposed(Place::device, 1000, 4);
  Memory buffer(Place::device, 1000);
  MUST(MPI_Win_fence(0, exposed));
  EXPECT_ERROR(MPI_Put(buffer, 4, MPI_BYTE, next(), 250, 4, MPI_BYTE, exposed), MPI_ERR_RMA_RANGE);
  EXPECT_ERROR(MPI_Put(buffer, 4, MPI_BYTE, next(), -1, 4, MPI_BYTE, exposed), MPI_ERR_DISP);
  EXPECT_ERROR(MPI_Get(buffer, 1000, MPI_BYTE, next(), 1, 1000, MPI_BYTE, exposed), MPI_ERR_RMA_RANGE);
  EXPECT_ERROR(MPI_Accumulate(buffer, 1, MPI_INT, next(), 250, 1, MPI_INT, MPI_SUM, exposed),
               MPI_ERR_RMA_RANGE);
  EXPECT_ERROR(MPI_Put(buffer, 4, MPI_BYTE, size, 0, 4, MPI_BYTE, exposed), MPI_ERR_RANK);
  // In bytes, each of these is where the window begins, or past all addresses.
  for (MPI_Aint far : {MPI_Aint{1} << 62, -(MPI_Aint{1} << 62), (MPI_Aint{1} << 62) - 1, MPI_Aint{1} << 61})
    EXPECT_ERROR(MPI_Put(buffer, 4, MPI_BYTE, next(), far, 4, MPI_BYTE, exposed),
                 far < 0 ? MPI_ERR_DISP : MPI_ERR_RMA_RANGE);
  MUST(MPI_Put(buffer, 0, MPI_BYTE, next(), 1000, 0, MPI_BYTE, exposed));
  MUST(MPI_Put(buffer, 4, MPI_BYTE, MPI_PROC_NULL, 0, 4, MPI_BYTE, exposed));
  MUST(MPI_Put(buffer, 4, MPI_BYTE, next(), 249, 4, MPI_BYTE, exposed));
  MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, exposed));
  std::vector<char> wanted(1000, static_cast<char>(guard_byte));
  std::string why;
  EXPECT(exposed.memory().holds(wanted, &why), "%s", why.c_str());
}

RANK_TEST(windows, accesses_without_a_type_are_errors, 1) {
  if (host_oracle) return;
  Exposed exposed(Place::device, 64);
  Memory buffer(Place::device, 64), more(Place::device, 64);
  const MPI_Datatype none = MPI_DATATYPE_NULL;
  MUST(MPI_Win_fence(0, exposed));
  EXPECT_ERROR(MPI_Put(buffer, 1, none, next(), 0, 4, MPI_BYTE, exposed), MPI_ERR_TYPE);
  EXPECT_ERROR(MPI_Put(buffer, 4, MPI_BYTE, next(), 0, 1, none, exposed), MPI_ERR_TYPE);
  EXPECT_ERROR(MPI_Get(buffer, 1, none, next(), 0, 4, MPI_BYTE, exposed), MPI_ERR_TYPE);
  EXPECT_ERROR(MPI_Get_accumulate(buffer, 1, MPI_INT, more, 1, none, next(), 0, 1, MPI_INT, MPI_SUM, exposed),
               MPI_ERR_TYPE);
  EXPECT_ERROR(MPI_Get_accumulate(buffer, 1, none, more, 1, MPI_INT, next(), 0, 1, MPI_INT, MPI_SUM, exposed),
               MPI_ERR_TYPE);
  MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, exposed));
}

RANK_TEST(windows, accesses_outside_of_epochs_are_errors, 2) {
  if (host_oracle) return;
  Exposed exposed(Place::device, 1000);
  Memory buffer(Place::device, 1000);
  EXPECT_ERROR(MPI_Put(buffer, 4, MPI_BYTE, next(), 0, 4, MPI_BYTE, exposed), MPI_ERR_RMA_SYNC);
  EXPECT_ERROR(MPI_Win_flush(next(), exposed), MPI_ERR_RMA_SYNC);
  EXPECT_ERROR(MPI_Win_unlock(next(), exposed), MPI_ERR_RMA_SYNC);
  EXPECT_ERROR(MPI_Win_unlock_all(exposed), MPI_ERR_RMA_SYNC);
  EXPECT_ERROR(MPI_Win_complete(exposed), MPI_ERR_RMA_SYNC);
  EXPECT_ERROR(MPI_Win_wait(exposed), MPI_ERR_RMA_SYNC);
  MUST(MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, exposed));
  EXPECT_ERROR(MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, exposed), MPI_ERR_RMA_SYNC);
  EXPECT_ERROR(MPI_Put(buffer, 4, MPI_BYTE, rank, 0, 4, MPI_BYTE, exposed), MPI_ERR_RMA_SYNC);
  MUST(MPI_Win_unlock(next(), exposed));
}

RANK_TEST(windows, many_live_at_once_on_one_allocation, 2) {
#ifndef OPEN_MPI
  // MPICH 4.0 itself changes the first of them only.
  if (host_oracle) return;
#endif
  Memory memory(Place::device, 8000);
  std::vector<MPI_Win> all(8);
  for (size_t i = 0; i < all.size(); ++i)
    MUST(MPI_Win_create(memory.data() + i * 1000, 1000, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &all[i]));
  Memory mine(Place::device, 1000);
  mine.fill(key_of(2, static_cast<uint64_t>(rank)));
  for (MPI_Win window : all) MUST(MPI_Win_fence(0, window));
  for (MPI_Win window : all) MUST(MPI_Put(mine, 1000, MPI_BYTE, next(), 0, 1000, MPI_BYTE, window));
  for (MPI_Win window : all) MUST(MPI_Win_fence(0, window));
  std::vector<char> wanted(8000);
  for (size_t i = 0; i < all.size(); ++i)
    write_pattern(key_of(2, static_cast<uint64_t>(previous())), wanted.data() + i * 1000, 1000);
  std::string why;
  EXPECT(memory.holds(wanted, &why), "%s", why.c_str());
  for (MPI_Win& window : all) MUST(MPI_Win_free(&window));
}

RANK_TEST(windows, of_one_rank_alone, 1) {
#ifdef OPEN_MPI
  // Open MPI 4.1 itself makes none.
  if (host_oracle) return;
#endif
  Exposed exposed(Place::device, 4096, 1, MPI_COMM_SELF);
  Memory mine(Place::device, 4096);
  mine.fill(key_of(17));
  MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, exposed));
  MUST(MPI_Put(mine, 4096, MPI_BYTE, 0, 0, 4096, MPI_BYTE, exposed));
  MUST(MPI_Win_unlock(0, exposed));
  EXPECT_HOLDS(exposed.memory(), key_of(17), 4096);
}

// The communicator may be gone before the window.
RANK_TEST(windows, of_duplicates_and_parts_of_the_world, 3) {
  for (bool part : {false, true}) {
    MPI_Comm comm;
    MUST(part ? MPI_Comm_split(MPI_COMM_WORLD, rank < size - 1 ? 0 : MPI_UNDEFINED, -rank, &comm)
              : MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (comm == MPI_COMM_NULL) continue;
    int mine = 0, members = 0;
    MUST(MPI_Comm_rank(comm, &mine));
    MUST(MPI_Comm_size(comm, &members));
    Exposed exposed(Place::device, static_cast<size_t>(members) * sizeof(int), sizeof(int), comm);
    MUST(MPI_Comm_free(&comm));
    exposed.fill_with(-1);
    const Memory value = memory_of(Place::device, std::vector<int>{rank});
    MUST(MPI_Win_fence(0, exposed));
    for (int target = 0; target < members; ++target)
      MUST(MPI_Put(value, 1, MPI_INT, target, mine, 1, MPI_INT, exposed));
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, exposed));
    const std::vector<int> found = exposed.values<int>();
    for (int from = 0; from < members; ++from) {
      const int wanted = part ? members - 1 - from : from;
      EXPECT(found[static_cast<size_t>(from)] == wanted, "%s: %d from member %d, not %d",
             part ? "a part" : "a duplicate", found[static_cast<size_t>(from)], from, wanted);
    }
  }
}

// Only its members call it: the last rank comes when they are done. Rank 1 needs an answer of rank 0 before.
RANK_TEST(windows, some_ranks_make_a_communicator_while_one_is_served, 3) {
  Exposed exposed(Place::device, 4096);
  const int last = size - 1;
  if (rank == last) {
    MUST(MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return;
  }
  if (rank == 1) {
    Memory out(Place::device, 4096);
    out.fill(key_of(7));
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, exposed));
    MUST(MPI_Put(out, 4096, MPI_BYTE, 0, 0, 4096, MPI_BYTE, exposed));
    MUST(MPI_Win_unlock(0, exposed));
  }
  MPI_Group world, members;
  MPI_Comm made;
  MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
  MUST(MPI_Group_excl(world, 1, &last, &members));
  MUST(MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &made));
  MUST(MPI_Barrier(made));
  if (rank == 0) {
    EXPECT_HOLDS(exposed.memory(), key_of(7), 4096);
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, last, 0, MPI_COMM_WORLD));
  }
  MUST(MPI_Comm_free(&made));
  MUST(MPI_Group_free(&members));
  MUST(MPI_Group_free(&world));
}

// Messages between nodes, too, where the thread that serves the window makes progress on them.
RANK_TEST(windows, messages_move_while_one_is_served, 2) {
  const int peer = partner();
  Memory exposed(Place::device, 4096);
  MPI_Win window;
  if (!MUST(MPI_Win_create(exposed, 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window))) return;
  for (int round = 0; round < 4 && peer != MPI_PROC_NULL; ++round)
    for (int bytes : {5000, 100000, 8 << 20}) {
      Memory out(Place::device, bytes), in(Place::device, bytes);
      out.fill(key_of(rank, round));
      MUST(MPI_Sendrecv(out, bytes, MPI_BYTE, peer, 0, in, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
      EXPECT_HOLDS(in, key_of(peer, round), static_cast<size_t>(bytes));
    }
  MUST(MPI_Win_free(&window));
}
