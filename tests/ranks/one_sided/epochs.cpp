// SPDX-License-Identifier: Apache-2.0
//
// Epochs of all kinds: what was put is there when the standard says so, and not changed before; locks keep
// out whom they must; requests end their own access.

#include <atomic>

#include "harness/exposed.h"

using namespace ranks;

namespace {

int next() {
  return (rank + 1) % size;
}

MPI_Group group_of(std::vector<int> members) {
  MPI_Group world, group;
  MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
  MUST(MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &group));
  MUST(MPI_Group_free(&world));
  return group;
}

}  // namespace

RANK_TEST(rma_epochs, post_start_complete_wait, 2) {
  constexpr int rounds = 10, count = 3000;
  Exposed exposed(Place::device, static_cast<size_t>(size) * count * sizeof(int), sizeof(int));
  std::vector<int> others;
  for (int other = 0; other < size; ++other)
    if (other != rank) others.push_back(other);
  MPI_Group group = group_of(others);
  for (int round = 0; round < rounds; ++round) {
    const Memory mine = memory_of(Place::device, std::vector<int>(count, 1000 * round + rank));
    MUST(MPI_Win_post(group, 0, exposed));
    MUST(MPI_Win_start(group, 0, exposed));
    for (int other : others)
      MUST(
          MPI_Put(mine, count, MPI_INT, other, static_cast<MPI_Aint>(rank) * count, count, MPI_INT, exposed));
    MUST(MPI_Win_complete(exposed));
    int over = 0;
    if (round % 2 == 0)
      MUST(MPI_Win_wait(exposed));
    else
      while (!over) MUST(MPI_Win_test(exposed, &over));
    const std::vector<int> found = exposed.values<int>();
    for (int other : others)
      for (int i : {0, count - 1})
        EXPECT(found[static_cast<size_t>(other * count + i)] == 1000 * round + other,
               "round %d: %d from rank %d", round, found[static_cast<size_t>(other * count + i)], other);
  }
  MUST(MPI_Group_free(&group));
}

// More than may be under way at once.
RANK_TEST(rma_epochs, many_accesses_of_one_epoch, 2) {
  constexpr int count = 3000;
  Exposed exposed(Place::device, count * sizeof(int), sizeof(int));
  std::vector<int> values(count);
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = 10 * i + rank;
  const Memory mine = memory_of(Place::device, values);
  const int* first = static_cast<const int*>(static_cast<void*>(mine));
  MUST(MPI_Win_fence(0, exposed));
  for (int i = 0; i < count; ++i) MUST(MPI_Put(first + i, 1, MPI_INT, next(), i, 1, MPI_INT, exposed));
  MUST(MPI_Win_fence(0, exposed));
  const std::vector<int> found = exposed.values<int>();
  for (int i = 0; i < count; ++i)
    EXPECT(found[static_cast<size_t>(i)] == 10 * i + (rank + size - 1) % size, "place %d holds %d", i,
           found[static_cast<size_t>(i)]);
}

// The first access of an epoch waits for the post, and MPI_Win_wait for the completion.
RANK_TEST(rma_epochs, a_late_post_is_waited_for, 2) {
  Exposed exposed(Place::device, 4096);
  MPI_Group group = group_of({rank == 0 ? 1 : 0});
  if (rank == 0) {
    Memory mine(Place::device, 4096);
    mine.fill(key_of(7));
    MUST(MPI_Win_start(group, 0, exposed));
    MUST(MPI_Put(mine, 4096, MPI_BYTE, 1, 0, 4096, MPI_BYTE, exposed));
    MUST(MPI_Win_complete(exposed));
  } else if (rank == 1) {
    for (int i = 0; i < 3; ++i) {
      exposed.memory().clear();
      std::string why;
      EXPECT(exposed.memory().holds(std::vector<char>(4096, static_cast<char>(guard_byte)), &why),
             "changed before it was posted: %s", why.c_str());
    }
    MUST(MPI_Win_post(group, 0, exposed));
    MUST(MPI_Win_wait(exposed));
    EXPECT_HOLDS(exposed.memory(), key_of(7), 4096);
  }
  MUST(MPI_Group_free(&group));
}

// Read, add, write under an exclusive lock: no update is lost.
RANK_TEST(rma_epochs, exclusive_locks_exclude, 2) {
  constexpr int rounds = 20;
  Exposed exposed(Place::device, sizeof(long), sizeof(long));
  exposed.fill_with(0L);
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  for (int round = 0; round < rounds; ++round) {
    for (int target = 0; target < size; ++target) {
      Memory value(round % 2 ? Place::device : Place::host, sizeof(long));
      MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, exposed));
      MUST(MPI_Get(value, 1, MPI_LONG, target, 0, 1, MPI_LONG, exposed));
      MUST(MPI_Win_flush(target, exposed));
      const long more = value_in<long>(value) + 1;
      value.write(&more, sizeof more);
      MUST(MPI_Put(value, 1, MPI_LONG, target, 0, 1, MPI_LONG, exposed));
      MUST(MPI_Win_unlock(target, exposed));
    }
  }
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  MUST(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, exposed));
  const long sum = exposed.values<long>()[0];
  MUST(MPI_Win_unlock(rank, exposed));
  EXPECT(sum == rounds * size, "%ld of %d updates", sum, rounds * size);
}

RANK_TEST(rma_epochs, shared_locks_and_lock_all, 2) {
  constexpr int count = 500;
  Exposed exposed(Place::device, static_cast<size_t>(size) * count * sizeof(int), sizeof(int));
  const Memory mine = memory_of(Place::device, std::vector<int>(count, 50 + rank));
  Memory got(Place::device, count * sizeof(int));
  for (int round = 0; round < 3; ++round) {
    exposed.memory().clear();
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (round < 2) MUST(MPI_Win_lock_all(round == 1 ? MPI_MODE_NOCHECK : 0, exposed));
    for (int target = 0; target < size; ++target) {
      if (round == 2) MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, exposed));
      MUST(MPI_Put(mine, count, MPI_INT, target, static_cast<MPI_Aint>(rank) * count, count, MPI_INT,
                   exposed));
      MUST(target % 2 ? MPI_Win_flush(target, exposed) : MPI_Win_flush_local(target, exposed));
    }
    MUST(round == 1 ? MPI_Win_flush_local_all(exposed) : MPI_Win_flush_all(exposed));
    MUST(MPI_Get(got, count, MPI_INT, next(), static_cast<MPI_Aint>(rank) * count, count, MPI_INT, exposed));
    for (int target = 0; round == 2 && target < size; ++target) MUST(MPI_Win_unlock(target, exposed));
    if (round < 2) MUST(MPI_Win_unlock_all(exposed));
    EXPECT(value_in<int>(got, count - 1) == 50 + rank, "round %d: got %d", round,
           value_in<int>(got, count - 1));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, exposed));
    MUST(MPI_Win_sync(exposed));
    const std::vector<int> found = exposed.values<int>();
    MUST(MPI_Win_unlock(rank, exposed));
    for (int from = 0; from < size; ++from)
      EXPECT(found[static_cast<size_t>(from * count + count - 1)] == 50 + from, "round %d: from rank %d",
             round, from);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
}

// A target is changed while it makes no call of MPI: by those who reach its memory, or by its progress
// thread.
RANK_TEST(rma_passive, targets_that_compute_are_reached, 2) {
  if (host_oracle) return;
  SharedFlags flags;
  Exposed exposed(Place::device, 5000);
  Memory mine(Place::device, 5000), old(Place::host, 8);
  if (rank == 0) {
    mine.fill(key_of(31));
    const Memory one = memory_of(Place::host, std::vector<long>{1});
    for (int target = 1; target < size; ++target) {
      MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, exposed));
      MUST(MPI_Put(mine, 5000, MPI_BYTE, target, 0, 5000, MPI_BYTE, exposed));
      MUST(MPI_Win_flush(target, exposed));
      MUST(MPI_Fetch_and_op(one, old, MPI_LONG, target, 0, MPI_NO_OP, exposed));
      MUST(MPI_Win_unlock(target, exposed));
    }
    flags.raise(1);
  } else {
    flags.await(1);
    EXPECT_HOLDS(exposed.memory(), key_of(31), 5000);
  }
}

// The origin is in a passive epoch while its target waits for it in calls of all kinds.
RANK_TEST(rma_epochs, targets_need_not_call_for_the_window, 2) {
  constexpr int count = 200000;
  Exposed exposed(Place::device, count, 1);
  Memory mine(Place::device, count), got(Place::device, count);
  for (int how = 0; how < 4; ++how) {
    mine.fill(key_of(11, static_cast<uint64_t>(how)));
    int word = 0;
    if (rank == 0) {
      for (int target = 1; target < size; ++target) {
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, exposed));
        MUST(MPI_Put(mine, count, MPI_BYTE, target, 0, count, MPI_BYTE, exposed));
        MUST(MPI_Win_flush(target, exposed));
        MUST(MPI_Get(got, count, MPI_BYTE, target, 0, count, MPI_BYTE, exposed));
        MUST(MPI_Win_unlock(target, exposed));
        EXPECT_HOLDS(got, key_of(11, static_cast<uint64_t>(how)), count);
      }
    }
    if (how == 0) MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (how == 1) MUST(MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (how == 2) MUST(MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (how == 3) {
      for (int target = 1; rank == 0 && target < size; ++target)
        MUST(MPI_Send(&word, 1, MPI_INT, target, 0, MPI_COMM_WORLD));
      if (rank != 0) MUST(MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    if (rank != 0) EXPECT_HOLDS(exposed.memory(), key_of(11, static_cast<uint64_t>(how)), count);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
}

RANK_TEST(rma_epochs, requests_end_their_own_access, 2) {
  constexpr size_t sizes[] = {1, 4096, 300000};
  for (Place place : host_and_device) {
    for (size_t bytes : sizes) {
      const int count = static_cast<int>(bytes);
      Exposed exposed(Place::device, bytes);
      Memory put(place, bytes), got(place, bytes), old(place, 8), one(place, 8);
      put.fill(key_of(21, static_cast<uint64_t>(rank)));
      MUST(MPI_Win_lock_all(0, exposed));
      MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
      MPI_Status status;
      MUST(MPI_Rput(put, count, MPI_BYTE, next(), 0, count, MPI_BYTE, exposed, &requests[0]));
      MUST(MPI_Wait(&requests[0], &status));
      MUST(MPI_Win_flush(next(), exposed));
      MUST(MPI_Rget(got, count, MPI_BYTE, next(), 0, count, MPI_BYTE, exposed, &requests[0]));
      MUST(MPI_Rput(put, 0, MPI_BYTE, next(), 0, 0, MPI_BYTE, exposed, &requests[1]));
      MUST(MPI_Rget(got, 1, MPI_BYTE, MPI_PROC_NULL, 0, 1, MPI_BYTE, exposed, &requests[2]));
      MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
      EXPECT_HOLDS(got, key_of(21, static_cast<uint64_t>(rank)), bytes);
      MUST(MPI_Win_unlock_all(exposed));
      MUST(MPI_Barrier(MPI_COMM_WORLD));
    }
    Exposed exposed(Place::device, sizeof(long), sizeof(long));
    exposed.fill_with(0L);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    const Memory one = memory_of(place, std::vector<long>{1});
    Memory old(place, sizeof(long));
    MUST(MPI_Win_lock_all(0, exposed));
    MPI_Request request;
    MUST(MPI_Raccumulate(one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, exposed, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Rget_accumulate(one, 1, MPI_LONG, old, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, exposed,
                             &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT(value_in<long>(old) >= 1 && value_in<long>(old) < 2 * size, "fetched %ld", value_in<long>(old));
    MUST(MPI_Win_unlock_all(exposed));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) EXPECT(exposed.values<long>()[0] == 2 * size, "the sum is %ld", exposed.values<long>()[0]);
  }
}
