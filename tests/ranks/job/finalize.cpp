// SPDX-License-Identifier: Apache-2.0
//
// What the program does in MPI_Finalize. That deletes the attributes of MPI_COMM_SELF first, the last one set
// before all others, while MPI still works (MPI 4.1, 11.2.4): so libraries clean up, and may communicate. The
// harness counts what fails then.

#include <vector>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr size_t small = 8, large = 300000;

void (*clean_up_functions[8])();
int clean_ups = 0;

int clean_up(MPI_Comm, int, void* function, void*) {
  int finalized = -1;
  MUST(MPI_Finalized(&finalized));
  EXPECT(finalized == 0, "MPI_Finalized is true while attributes of MPI_COMM_SELF are deleted");
  (*static_cast<void (**)()>(function))();
  return MPI_SUCCESS;
}

void in_finalize(void (*function)()) {
  int keyval = MPI_KEYVAL_INVALID;
  clean_up_functions[clean_ups] = function;
  MUST(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, clean_up, &keyval, nullptr));
  MUST(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &clean_up_functions[clean_ups++]));
  MUST(MPI_Comm_free_keyval(&keyval));
}

void send_around(MPI_Comm comm) {
  int me = 0, ranks = 1;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  const int next = (me + 1) % ranks, previous = (me + ranks - 1) % ranks;
  for (const size_t bytes : {small, large}) {
    Memory sent(Place::device, bytes), received(Place::device, bytes);
    sent.fill(key_of(static_cast<uint64_t>(me), bytes));
    MPI_Request requests[2];
    MUST(MPI_Irecv(received, static_cast<int>(bytes), MPI_BYTE, previous, 7, comm, &requests[0]));
    MUST(MPI_Isend(sent, static_cast<int>(bytes), MPI_BYTE, next, 7, comm, &requests[1]));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT_HOLDS(received, key_of(static_cast<uint64_t>(previous), bytes), bytes);
  }
}

void add_up(MPI_Comm comm) {
  int me = 0, ranks = 1;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  constexpr int count = 1000;
  const std::vector<int> mine(count, me + 1);
  Memory part(Place::device, count * sizeof(int)), sum(Place::device, count * sizeof(int));
  part.write(mine.data(), count * sizeof(int));
  MUST(MPI_Allreduce(part, sum, count, MPI_INT, MPI_SUM, comm));
  std::vector<int> found(count);
  sum.read(found.data(), count * sizeof(int));
  EXPECT(found == std::vector<int>(count, ranks * (ranks + 1) / 2), "the sum begins with %d", found[0]);
}

}  // namespace

RANK_TEST(finalize, messages_to_others_and_to_self, 1) {
  in_finalize([] {
    send_around(MPI_COMM_WORLD);
    send_around(MPI_COMM_SELF);
  });
}

RANK_TEST(finalize, collectives_and_new_communicators, 1) {
  in_finalize([] {
    add_up(MPI_COMM_WORLD);
    add_up(MPI_COMM_SELF);
    MPI_Comm duplicate = MPI_COMM_NULL;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
    send_around(duplicate);
    add_up(duplicate);
    MUST(MPI_Comm_free(&duplicate));
  });
}

// Used before, and by a function that runs when others have been deleted already.
RANK_TEST(finalize, the_first_function_set_is_called_last, 1) {
  static int calls = 0;
  in_finalize([] {
    EXPECT(calls == 1, "%d functions were called before the one that was set first", calls);
    send_around(MPI_COMM_SELF);
    add_up(MPI_COMM_SELF);
  });
  in_finalize([] { ++calls; });
  send_around(MPI_COMM_SELF);
  add_up(MPI_COMM_SELF);
}

RANK_TEST(finalize, a_message_that_was_sent_before_is_received, 2) {
  static Memory sent;
  static MPI_Comm comm;
  static MPI_Request request;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  sent = Memory(Place::device, large);
  sent.fill(key_of(3));
  if (rank == 0) MUST(MPI_Isend(sent, large, MPI_BYTE, 1, 3, comm, &request));
  in_finalize([] {
    if (rank == 0) MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (rank == 1) {
      Memory received(Place::device, large);
      MUST(MPI_Recv(received, large, MPI_BYTE, 0, 3, comm, MPI_STATUS_IGNORE));
      EXPECT_HOLDS(received, key_of(3), large);
    }
    MUST(MPI_Comm_free(&comm));
    sent = Memory();
  });
}

RANK_TEST(finalize, windows_of_device_memory_are_used_and_freed, 1) {
  static Memory target;
  static MPI_Win window;
  target = Memory(Place::device, large);
  MUST(MPI_Win_create(target, large, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
  in_finalize([] {
    Memory origin(Place::device, large);
    origin.fill(key_of(static_cast<uint64_t>(rank), 5));
    MUST(MPI_Win_fence(0, window));
    MUST(MPI_Put(origin, large, MPI_BYTE, (rank + 1) % size, 0, large, MPI_BYTE, window));
    MUST(MPI_Win_fence(0, window));
    EXPECT_HOLDS(target, key_of(static_cast<uint64_t>((rank + size - 1) % size), 5), large);
    MUST(MPI_Win_free(&window));
    target = Memory();
  });
}
