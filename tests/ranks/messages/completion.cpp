// SPDX-License-Identifier: Apache-2.0
//
// M8: every completion call handles arrays that mix device requests, host requests, generalised requests of
// the user, null and inactive ones, with the index order and MPI_UNDEFINED rules of the standard.

#include <sched.h>

#include <algorithm>

#include "harness/harness.h"
#include "harness/mpi4.h"

using namespace ranks;

namespace {

constexpr int tag = 23;
constexpr int go = 24;
constexpr size_t bytes = 200000;

int query_nothing(void*, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_BYTE, 5);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 3;
  status->MPI_TAG = 4;
  return MPI_SUCCESS;
}
int free_nothing(void*) {
  return MPI_SUCCESS;
}
int cancel_nothing(void*, int) {
  return MPI_SUCCESS;
}

// The array that all completion calls are tried on. The peer's messages have the tags of their indices.
struct MixedArray {
  enum Index { null_first, device, host, generalized, inactive, small_device, device_send, host_send, count };

  explicit MixedArray(int peer) : peer(peer) {
    memory[device] = Memory(Place::device, bytes);
    memory[host] = Memory(Place::host, bytes);
    memory[inactive] = Memory(rank % 2 == 0 ? Place::device : Place::host, bytes);
    memory[small_device] = Memory(Place::device, 40);
    memory[device_send] = Memory(Place::device, bytes);
    memory[host_send] = Memory(Place::host, 64);
    memory[device_send].fill(key_of(rank, device_send));
    memory[host_send].fill(key_of(rank, host_send));
    for (int i : {device, host, small_device})
      MUST(MPI_Irecv(memory[i], count_of(i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]));
    for (int i : {device_send, host_send})
      MUST(MPI_Isend(memory[i], count_of(i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]));
    MUST(MPI_Recv_init(memory[inactive], bytes, MPI_BYTE, peer, inactive, MPI_COMM_WORLD,
                       &requests[inactive]));
    MUST(MPI_Grequest_start(query_nothing, free_nothing, cancel_nothing, nullptr, &requests[generalized]));
  }

  ~MixedArray() {
    EXPECT(requests[inactive] != MPI_REQUEST_NULL, "an inactive persistent request was freed");
    if (requests[inactive] != MPI_REQUEST_NULL) MUST(MPI_Request_free(&requests[inactive]));
    for (int i = 0; i < count; ++i)
      EXPECT(requests[i] == MPI_REQUEST_NULL, "request %d is not null after its completion", i);
  }

  // What the peer does for the array of this rank; it has one of its own, so both play both parts.
  void answer() {
    MUST(MPI_Grequest_complete(requests[generalized]));
    for (int i : {device, host, small_device}) {
      // Sent from the other kind of memory than received into.
      Memory buffer(i == host ? Place::device : Place::host, memory[i].bytes());
      buffer.fill(key_of(rank, i));
      answers.push_back(std::move(buffer));
      answer_requests.push_back(MPI_REQUEST_NULL);
      MUST(
          MPI_Isend(answers.back(), count_of(i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &answer_requests.back()));
    }
    for (int i : {device_send, host_send}) {
      answers.emplace_back(Place::device, memory[i].bytes());
      answer_requests.push_back(MPI_REQUEST_NULL);
      MUST(
          MPI_Irecv(answers.back(), count_of(i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &answer_requests.back()));
    }
  }

  void finish() {
    MUST(MPI_Waitall(static_cast<int>(answer_requests.size()), answer_requests.data(), MPI_STATUSES_IGNORE));
    EXPECT_HOLDS(answers[3], key_of(peer, device_send), bytes);
    EXPECT_HOLDS(answers[4], key_of(peer, host_send), 64);
  }

  // Request i was reported complete with this status.
  void expect_completed(int i, const MPI_Status& status) {
    switch (i) {
      case null_first:
      case inactive:
        EXPECT_EMPTY(status);
        break;
      case device:
      case host:
      case small_device:
        EXPECT_STATUS(status, peer, i, memory[i].bytes());
        EXPECT_HOLDS(memory[i], key_of(peer, i), memory[i].bytes());
        break;
      case generalized:
        EXPECT_STATUS(status, 3, 4, 5);
        break;
      case device_send:
      case host_send:
        break;  // the status of a send tells nothing
      default:
        EXPECT(false, "index %d is outside of the array", i);
    }
  }

  int count_of(int i) const { return static_cast<int>(memory[i].bytes()); }

  int peer;
  Memory memory[count];
  MPI_Request requests[count] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL,
                                 MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::vector<Memory> answers;
  std::vector<MPI_Request> answer_requests;
};
constexpr int active_count = 6;  // neither null nor inactive

// Runs `complete(array)` on a mixed array on both ranks of each pair.
template <typename Complete>
void on_mixed_array(Complete complete) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  MixedArray array(peer);
  array.answer();
  complete(array);
  array.finish();
}

}  // namespace

RANK_TEST(completion, M8_wait_and_test_one_by_one, 2) {
  on_mixed_array([](MixedArray& array) {
    for (int i = MixedArray::count - 1; i >= 0; --i) {
      MPI_Status status;
      if (i % 2 == 0) {
        MUST(MPI_Wait(&array.requests[i], &status));
      } else {
        for (int done = 0; !done && MUST(MPI_Test(&array.requests[i], &done, &status));) sched_yield();
      }
      array.expect_completed(i, status);
    }
  });
}

RANK_TEST(completion, M8_waitall_fills_statuses_in_index_order, 2) {
  on_mixed_array([](MixedArray& array) {
    MPI_Status statuses[MixedArray::count];
    MUST(MPI_Waitall(MixedArray::count, array.requests, statuses));
    for (int i = 0; i < MixedArray::count; ++i) array.expect_completed(i, statuses[i]);
  });
  on_mixed_array([](MixedArray& array) {
    MUST(MPI_Waitall(MixedArray::count, array.requests, MPI_STATUSES_IGNORE));
    for (int i : {MixedArray::device, MixedArray::host, MixedArray::small_device})
      EXPECT_HOLDS(array.memory[i], key_of(array.peer, i), array.memory[i].bytes());
  });
}

RANK_TEST(completion, M8_a_failed_waitall_sets_every_error, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Memory from(Place::host, bytes), to(Place::device, bytes);
  from.fill(key_of(1));
  // A receive without room is the host MPI's own.
  MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MUST(MPI_Irecv(to, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
  MUST(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, &requests[2]));
  MUST(MPI_Send(from, 8, MPI_BYTE, peer, go, MPI_COMM_WORLD));
  MPI_Request send;
  MUST(MPI_Isend(from, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &send));
  MPI_Status statuses[3];
  for (MPI_Status& status : statuses) status.MPI_ERROR = MPI_ERR_OTHER;
  EXPECT_ERROR(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS);
  // Open MPI may end before the second message has come. MPICH (seen with 4.0.2) leaves the first error
  // unset.
  if (requests[1] != MPI_REQUEST_NULL) {
    EXPECT(error_class(statuses[1].MPI_ERROR) == MPI_ERR_PENDING, "a pending request is not called that");
    MUST(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    statuses[1].MPI_ERROR = MPI_SUCCESS;
  }
  if (host_oracle) statuses[0].MPI_ERROR = MPI_SUCCESS;
  const int wanted[] = {MPI_SUCCESS, MPI_SUCCESS, MPI_ERR_TRUNCATE};
  for (int i = 0; i < 3; ++i) {
    const int error = statuses[i].MPI_ERROR;
    EXPECT(error_class(error) == wanted[i], "the error of status %d is %s", i, error_name(error).c_str());
  }
  MUST(MPI_Wait(&send, MPI_STATUS_IGNORE));
  EXPECT_HOLDS(to, key_of(1), bytes);
}

RANK_TEST(completion, M8_testall_is_all_or_nothing, 2) {
  on_mixed_array([](MixedArray& array) {
    MPI_Status statuses[MixedArray::count];
    // A generalised request that is not complete holds the others back, and none may be deallocated.
    MPI_Request with_open[MixedArray::count + 1];
    std::copy(array.requests, array.requests + MixedArray::count, with_open);
    MPI_Request open;
    MUST(MPI_Grequest_start(query_nothing, free_nothing, cancel_nothing, nullptr, &open));
    with_open[MixedArray::count] = open;
    for (int i = 0; i < 100; ++i) {
      int done = 1;
      MUST(MPI_Testall(MixedArray::count + 1, with_open, &done, MPI_STATUSES_IGNORE));
      EXPECT(!done, "Testall is true while a request is open");
    }
    EXPECT(std::equal(array.requests, array.requests + MixedArray::count, with_open),
           "a Testall that said false changed a request");
    MUST(MPI_Grequest_complete(open));
    MUST(MPI_Wait(&open, MPI_STATUS_IGNORE));
    int done = 0;
    while (!done && MUST(MPI_Testall(MixedArray::count, array.requests, &done, statuses))) sched_yield();
    for (int i = 0; i < MixedArray::count; ++i) array.expect_completed(i, statuses[i]);
  });
}

RANK_TEST(completion, M8_waitany_and_testany_take_each_request_once, 2) {
  for (bool blocking : {true, false}) {
    on_mixed_array([&](MixedArray& array) {
      int seen = 0;
      for (int n = 0; n < active_count; ++n) {
        int index = -1;
        MPI_Status status;
        int done = 0;
        if (blocking)
          MUST(MPI_Waitany(MixedArray::count, array.requests, &index, &status));
        else
          while (!done && MUST(MPI_Testany(MixedArray::count, array.requests, &index, &done, &status)))
            sched_yield();
        EXPECT(index >= 0 && index < MixedArray::count && (seen >> index & 1) == 0, "index %d again", index);
        if (index < 0 || index >= MixedArray::count) return;
        seen |= 1 << index;
        EXPECT(index != MixedArray::null_first && index != MixedArray::inactive,
               "index %d is of a request that is not active", index);
        array.expect_completed(index, status);
      }
      int index = 0, done = 0;
      MPI_Status status;
      MUST(MPI_Waitany(MixedArray::count, array.requests, &index, &status));
      EXPECT(index == MPI_UNDEFINED, "Waitany without active requests gives index %d", index);
      EXPECT_EMPTY(status);
      MUST(MPI_Testany(MixedArray::count, array.requests, &index, &done, &status));
      EXPECT(done && index == MPI_UNDEFINED, "Testany without active requests: %d, index %d", done, index);
      EXPECT_EMPTY(status);
    });
  }
}

RANK_TEST(completion, M8_waitsome_and_testsome_take_each_request_once, 2) {
  for (bool blocking : {true, false}) {
    on_mixed_array([&](MixedArray& array) {
      int seen = 0, left = active_count;
      while (left > 0) {
        int completed = 0, indices[MixedArray::count];
        MPI_Status statuses[MixedArray::count];
        if (!MUST(blocking ? MPI_Waitsome(MixedArray::count, array.requests, &completed, indices, statuses)
                           : MPI_Testsome(MixedArray::count, array.requests, &completed, indices, statuses)))
          return;
        EXPECT(completed >= (blocking ? 1 : 0) && completed <= left, "%d of %d requests completed", completed,
               left);
        if (completed < 0 || completed > left) return;
        for (int n = 0; n < completed; ++n) {
          EXPECT((seen >> indices[n] & 1) == 0, "index %d again", indices[n]);
          seen |= 1 << indices[n];
          array.expect_completed(indices[n], statuses[n]);
        }
        left -= completed;
        sched_yield();
      }
      int completed = 0, indices[MixedArray::count];
      MUST(MPI_Waitsome(MixedArray::count, array.requests, &completed, indices, MPI_STATUSES_IGNORE));
      EXPECT(completed == MPI_UNDEFINED, "Waitsome without active requests gives %d", completed);
      MUST(MPI_Testsome(MixedArray::count, array.requests, &completed, indices, MPI_STATUSES_IGNORE));
      EXPECT(completed == MPI_UNDEFINED, "Testsome without active requests gives %d", completed);
    });
  }
}

RANK_TEST(completion, M8_request_get_status_keeps_the_request, 2) {
  on_mixed_array([](MixedArray& array) {
    for (int i : {MixedArray::device, MixedArray::small_device, MixedArray::host, MixedArray::generalized}) {
      MPI_Status status;
      for (int round = 0; round < 3; ++round) {
        int done = 0;
        while (!done && MUST(MPI_Request_get_status(array.requests[i], &done, &status))) sched_yield();
        array.expect_completed(i, status);
      }
      EXPECT(array.requests[i] != MPI_REQUEST_NULL, "Request_get_status freed request %d", i);
      MUST(MPI_Wait(&array.requests[i], &status));
      array.expect_completed(i, status);
    }
    MUST(MPI_Waitall(MixedArray::count, array.requests, MPI_STATUSES_IGNORE));
  });
}

RANK_TEST(completion, M8_request_get_status_of_arrays_keeps_the_requests, 2) {
  if (!mpi4::Request_get_status_all || !mpi4::Request_get_status_any || !mpi4::Request_get_status_some)
    return skip("the MPI has no MPI_Request_get_status_all, _any and _some");
  on_mixed_array([](MixedArray& array) {
    // The send of host memory is left out of those that must be told: to Open MPI a send that is over is
    // inactive.
    const int told[] = {MixedArray::device, MixedArray::host, MixedArray::generalized,
                        MixedArray::small_device, MixedArray::device_send};
    const std::vector<MPI_Request> before(array.requests, array.requests + MixedArray::count);
    MPI_Status statuses[MixedArray::count];
    int done = 0, index = 0, completed = 0, indices[MixedArray::count];
    for (int round = 0; round < 3; ++round) {
      for (done = 0; !done;) {
        if (!MUST(mpi4::Request_get_status_all(MixedArray::count, array.requests, &done, statuses))) return;
        sched_yield();
      }
      for (int i = 0; i < MixedArray::count; ++i) array.expect_completed(i, statuses[i]);
      // All are complete, so one of them is found, and all are counted, as often as one asks.
      MUST(mpi4::Request_get_status_any(MixedArray::count, array.requests, &index, &done, statuses));
      EXPECT(done && index == MixedArray::device, "any of the requests: %d, index %d", done, index);
      if (done && index == MixedArray::device) array.expect_completed(index, statuses[0]);
      MUST(mpi4::Request_get_status_some(MixedArray::count, array.requests, &completed, indices, statuses));
      EXPECT(completed >= static_cast<int>(std::size(told)) && completed <= active_count,
             "some of the requests: %d", completed);
      if (completed < 0 || completed > active_count) return;
      for (int n = 0; n < completed; ++n) array.expect_completed(indices[n], statuses[n]);
      for (int i : told)
        EXPECT(std::count(indices, indices + completed, i) == 1, "index %d is not told once", i);
    }
    EXPECT(std::equal(before.begin(), before.end(), array.requests), "asking changed a request");
    // Where there is an incomplete one, or none that is active.
    MPI_Request open;
    MUST(MPI_Grequest_start(query_nothing, free_nothing, cancel_nothing, nullptr, &open));
    const MPI_Request with_open[] = {MPI_REQUEST_NULL, open, array.requests[MixedArray::inactive]};
    MUST(mpi4::Request_get_status_all(3, with_open, &done, MPI_STATUSES_IGNORE));
    EXPECT(!done, "all are complete while one is open");
    MUST(mpi4::Request_get_status_any(3, with_open, &index, &done, statuses));
    EXPECT(!done && index == MPI_UNDEFINED, "any is complete while the only one is open: index %d", index);
    MUST(mpi4::Request_get_status_some(3, with_open, &completed, indices, statuses));
    EXPECT(completed == 0, "%d are complete while the only one is open", completed);
    MUST(MPI_Grequest_complete(open));
    MUST(MPI_Wait(&open, MPI_STATUS_IGNORE));
    const MPI_Request none[] = {MPI_REQUEST_NULL, array.requests[MixedArray::inactive]};
    for (int length : {0, 2}) {
      MUST(mpi4::Request_get_status_all(length, none, &done, statuses));
      EXPECT(done, "nothing is not all complete");
      for (int i = 0; i < length; ++i) EXPECT_EMPTY(statuses[i]);
      MUST(mpi4::Request_get_status_any(length, none, &index, &done, statuses));
      EXPECT(done && index == MPI_UNDEFINED, "any of nothing: %d, index %d", done, index);
      EXPECT_EMPTY(statuses[0]);
      MUST(mpi4::Request_get_status_some(length, none, &completed, indices, statuses));
      EXPECT(completed == MPI_UNDEFINED, "some of nothing: %d", completed);
    }
    MUST(MPI_Waitall(MixedArray::count, array.requests, statuses));
    for (int i = 0; i < MixedArray::count; ++i) array.expect_completed(i, statuses[i]);
  });
}

RANK_TEST(completion, M8_empty_arrays_and_null_requests, 1) {
  // With a device operation active, so that the calls do not take the way of host-only programs.
  Memory in(Place::device, bytes), out(Place::device, bytes);
  out.fill(key_of(1));
  MPI_Request active;
  MUST(MPI_Irecv(in, bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &active));
  MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  for (int length : {0, 2}) {
    int index = 7, done = 0, completed = 7, indices[2];
    MPI_Status status;
    MUST(MPI_Waitall(length, none, MPI_STATUSES_IGNORE));
    MUST(MPI_Testall(length, none, &done, MPI_STATUSES_IGNORE));
    EXPECT(done, "Testall of nothing is false");
    MUST(MPI_Waitany(length, none, &index, &status));
    EXPECT(index == MPI_UNDEFINED, "Waitany of nothing gives %d", index);
    MUST(MPI_Testany(length, none, &index, &done, &status));
    EXPECT(done && index == MPI_UNDEFINED, "Testany of nothing gives %d, index %d", done, index);
    MUST(MPI_Waitsome(length, none, &completed, indices, MPI_STATUSES_IGNORE));
    EXPECT(completed == MPI_UNDEFINED, "Waitsome of nothing gives %d", completed);
    MUST(MPI_Testsome(length, none, &completed, indices, MPI_STATUSES_IGNORE));
    EXPECT(completed == MPI_UNDEFINED, "Testsome of nothing gives %d", completed);
  }
  int done = 0;
  MPI_Status status;
  MUST(MPI_Wait(&none[0], &status));
  EXPECT_EMPTY(status);
  MUST(MPI_Test(&none[0], &done, &status));
  EXPECT(done, "Test of null is false");
  EXPECT_EMPTY(status);
  MUST(MPI_Send(out, bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD));
  MUST(MPI_Wait(&active, &status));
  EXPECT_STATUS(status, rank, tag, bytes);
  EXPECT_HOLDS(in, key_of(1), bytes);
}

RANK_TEST(completion, M8_cancelled_device_receives_leave_their_message, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t length : {size_t{8}, size_t{64}, bytes}) {
    if (rank < peer) {
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      Memory out(Place::device, length);
      out.fill(key_of(length, 2));
      MUST(MPI_Send(out, static_cast<int>(length), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      continue;
    }
    Memory cancelled(Place::device, bytes), in(Place::device, bytes);
    MPI_Request request;
    MPI_Status status;
    int is_cancelled = 0;
    MUST(MPI_Irecv(cancelled, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
    MUST(MPI_Cancel(&request));
    MUST(MPI_Wait(&request, &status));
    MUST(MPI_Test_cancelled(&status, &is_cancelled));
    EXPECT(is_cancelled, "a receive without a message was not cancelled");
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
    MUST(MPI_Recv(in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
    MUST(MPI_Test_cancelled(&status, &is_cancelled));
    EXPECT(!is_cancelled, "a received message says it was cancelled");
    EXPECT_STATUS(status, peer, tag, length);
    EXPECT_HOLDS(in, key_of(length, 2), length);
    EXPECT_HOLDS(cancelled, 0, 0);
  }
}

RANK_TEST(completion, M8_freed_receives_still_arrive, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place to : host_and_device) {
    Memory buffer(rank < peer ? Place::device : to, bytes);
    if (rank < peer) {
      buffer.fill(key_of(3));
      MUST(MPI_Ssend(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      MUST(MPI_Ssend(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
    } else {
      MPI_Request request;
      MUST(MPI_Irecv(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Request_free(&request));
      EXPECT(request == MPI_REQUEST_NULL, "Request_free left the handle");
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      // No call tells when a freed receive is done; poll the MPI and look, as long as the watchdog allows.
      std::string why;
      int found;
      while (!buffer.holds(key_of(3), bytes, &why))
        MUST(MPI_Iprobe(peer, tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
    }
  }
}

RANK_TEST(completion, M8_persistent_requests_of_all_ends, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 6;
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      for (size_t length : {size_t{0}, size_t{9}, size_t{64}, size_t{65}, bytes}) {
        const int count = static_cast<int>(length);
        Memory out(from, length), in(to, length);
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MUST(MPI_Recv_init(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
        MUST(MPI_Send_init(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
        for (int round = 0; round < rounds; ++round) {
          out.fill(key_of(rank, round, length));
          in.clear();
          if (round % 2 == 0) {
            MUST(MPI_Startall(2, requests));
          } else {
            MUST(MPI_Start(&requests[0]));
            MUST(MPI_Start(&requests[1]));
          }
          MUST(MPI_Waitall(2, requests, statuses));
          EXPECT_STATUS(statuses[0], peer, tag, length);
          EXPECT_HOLDS(in, key_of(peer, round, length), length);
          EXPECT(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL,
                 "completion freed a persistent request");
        }
        MUST(MPI_Request_free(&requests[0]));
        MUST(MPI_Request_free(&requests[1]));
      }
    }
  }
}

RANK_TEST(completion, M8_persistent_requests_keep_a_freed_type, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int ints = 1000;
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      MPI_Datatype gaps;
      MUST(MPI_Type_vector(ints, 1, 2, MPI_INT, &gaps));
      MUST(MPI_Type_commit(&gaps));
      Memory out(from, 2 * ints * sizeof(int)), in(to, 2 * ints * sizeof(int));
      MPI_Request requests[2];
      MUST(MPI_Recv_init(in, 1, gaps, peer, tag, MPI_COMM_WORLD, &requests[0]));
      MUST(MPI_Send_init(out, 1, gaps, peer, tag, MPI_COMM_WORLD, &requests[1]));
      MUST(MPI_Type_free(&gaps));
      std::vector<int> values(2 * ints);
      for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 2 * ints; ++i) values[static_cast<size_t>(i)] = 10000 * (rank + round) + i;
        out.write(values.data(), out.bytes());
        std::fill(values.begin(), values.end(), -1);
        in.write(values.data(), in.bytes());
        MUST(MPI_Startall(2, requests));
        MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        in.read(values.data(), in.bytes());
        for (int i = 0; i < 2 * ints - 1; ++i) {
          const int wanted = i % 2 == 0 ? 10000 * (peer + round) + i : -1,
                    found = values[static_cast<size_t>(i)];
          EXPECT(found == wanted, "int %d is %d, not %d", i, found, wanted);
        }
      }
      for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
    }
  }
}
