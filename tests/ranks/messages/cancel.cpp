// SPDX-License-Identifier: Apache-2.0
//
// Cancelling receives: one without a message is cancelled, whichever call completes it, and leaves its buffer
// and all later messages alone; one with a message receives it. Into device memory, and into host memory that
// a device message may reach.

#include <sched.h>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 51;
constexpr int go = 52;
constexpr size_t bytes = 100000;

// Completes one request in every possible way.
enum Way { wait, test, waitall, testall, waitany, testany, waitsome, testsome, ways };

MPI_Status complete(MPI_Request* request, Way way) {
  MPI_Status status{};
  int done = 0, index = -1;
  switch (way) {
    case wait:
      MUST(MPI_Wait(request, &status));
      break;
    case test:
      while (!done && MUST(MPI_Test(request, &done, &status))) sched_yield();
      break;
    case waitall:
      MUST(MPI_Waitall(1, request, &status));
      break;
    case testall:
      while (!done && MUST(MPI_Testall(1, request, &done, &status))) sched_yield();
      break;
    case waitany:
      MUST(MPI_Waitany(1, request, &index, &status));
      break;
    case testany:
      while (!done && MUST(MPI_Testany(1, request, &index, &done, &status))) sched_yield();
      break;
    case waitsome:
      MUST(MPI_Waitsome(1, request, &done, &index, &status));
      break;
    case testsome:
      while (!done && MUST(MPI_Testsome(1, request, &done, &index, &status))) sched_yield();
      break;
    case ways:
      break;
  }
  return status;
}

bool is_cancelled(const MPI_Status& status) {
  int flag = 0;
  MUST(MPI_Test_cancelled(&status, &flag));
  return flag != 0;
}

}  // namespace

RANK_TEST(cancel, unmatched_receives_are_cancelled, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place to : {Place::host, Place::device, Place::other_device}) {
    for (bool persistent : {false, true}) {
      for (int way = 0; way < ways; ++way) {
        Memory untouched(to, bytes), in(to, bytes), out(Place::device, bytes);
        MPI_Request request;
        if (persistent) {
          MUST(MPI_Recv_init(untouched, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
          MUST(MPI_Start(&request));
        } else {
          MUST(MPI_Irecv(untouched, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
        }
        MUST(MPI_Cancel(&request));
        MPI_Status status = complete(&request, static_cast<Way>(way));
        EXPECT(is_cancelled(status), "a receive into %s memory was not cancelled, says way %d", to_string(to),
               way);
        EXPECT((request != MPI_REQUEST_NULL) == persistent, "completion handled the request wrongly");
        // A message that comes now is for the next receive.
        out.fill(key_of(rank, way));
        MUST(exchange_nothing(peer, go));
        MPI_Request sending;
        MUST(MPI_Isend(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &sending));
        if (persistent) {
          MUST(MPI_Start(&request));
          status = complete(&request, static_cast<Way>(way));
          EXPECT_HOLDS(untouched, key_of(peer, way), bytes);
          MUST(MPI_Request_free(&request));
        } else {
          MUST(MPI_Recv(in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
          EXPECT_HOLDS(in, key_of(peer, way), bytes);
          EXPECT_HOLDS(untouched, 0, 0);
        }
        EXPECT(!is_cancelled(status), "a received message says it was cancelled");
        EXPECT_STATUS(status, peer, tag, bytes);
        MUST(MPI_Wait(&sending, MPI_STATUS_IGNORE));
      }
    }
  }
}

RANK_TEST(cancel, matched_receives_take_their_message, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      for (size_t length : {size_t{8}, size_t{96}, bytes}) {
        const int count = static_cast<int>(length);
        Memory in(to, length), out(from, length);
        out.fill(key_of(rank, length));
        MPI_Request requests[2];
        MUST(MPI_Irecv(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
        MUST(MPI_Isend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
        // What follows on the same communicator has come, so the message has been matched.
        MUST(exchange_nothing(peer, go));
        MUST(MPI_Cancel(&requests[0]));
        MPI_Status statuses[2];
        MUST(MPI_Waitall(2, requests, statuses));
        EXPECT(!is_cancelled(statuses[0]), "a matched receive of %zu bytes was cancelled", length);
        EXPECT_STATUS(statuses[0], peer, tag, length);
        EXPECT_HOLDS(in, key_of(peer, length), length);
      }
    }
  }
}

RANK_TEST(cancel, cancelled_and_freed_receives_take_nothing, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place to : host_and_device) {
    Memory untouched(to, bytes), in(to, bytes), out(Place::device, bytes);
    out.fill(key_of(rank, 3));
    MPI_Request request;
    MUST(MPI_Irecv(untouched, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
    MUST(MPI_Cancel(&request));
    MUST(MPI_Request_free(&request));
    MUST(exchange_nothing(peer, go));
    MPI_Status status;
    MUST(MPI_Sendrecv(out, bytes, MPI_BYTE, peer, tag, in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                      &status));
    EXPECT_STATUS(status, peer, tag, bytes);
    EXPECT_HOLDS(in, key_of(peer, 3), bytes);
    EXPECT_HOLDS(untouched, 0, 0);
  }
}
