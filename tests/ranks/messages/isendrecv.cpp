// SPDX-License-Identifier: Apache-2.0
//
// MPI_Isendrecv and MPI_Isendrecv_replace: both halves between all kinds of memory, one request, the status
// of the receive (M2), with the completion calls (M8), truncation (M3) and progress (M5) of any request.

#include <sched.h>

#include "harness/counted_errors.h"
#include "harness/harness.h"
#include "harness/mpi4.h"

using namespace ranks;

namespace {

constexpr int tag = 31;
constexpr size_t bytes = 200000;
constexpr size_t sizes[] = {0, 8, 95, 96, 97, 4096, bytes};
constexpr Place places[] = {Place::host, Place::device, Place::other_device};

bool missing() {
  if (!mpi4::isendrecv_works()) skip("the MPI has no MPI_Isendrecv, or none that works");
  return !mpi4::isendrecv_works();
}

int start(const Memory& out, int dest, Memory& in, int source, MPI_Request* request) {
  return CALL(mpi4::Isendrecv(out, static_cast<int>(out.bytes()), MPI_BYTE, dest, tag, in,
                              static_cast<int>(in.bytes()), MPI_BYTE, source, tag, MPI_COMM_WORLD, request));
}

}  // namespace

RANK_TEST(isendrecv, M2_all_ends_with_the_status_of_the_receive, 1) {
  if (missing()) return;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (Place from : places) {
    for (Place to : places) {
      for (size_t length : sizes) {
        Memory out(from, length), in(to, length + 5);
        out.fill(key_of(rank, length));
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;
        MUST(start(out, next, in, previous, &request));
        MUST(MPI_Wait(&request, &status));
        EXPECT(request == MPI_REQUEST_NULL, "a completed request is not null");
        EXPECT_STATUS(status, previous, tag, length);
        EXPECT_HOLDS(in, key_of(previous, length), length);
      }
    }
  }
}

RANK_TEST(isendrecv, M2_meets_ordinary_sends_and_receives, 2) {
  // A host receive half takes what a device sender offers, whatever calls the peer uses.
  if (missing()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place mine : places) {
    for (Place theirs : places) {
      for (size_t length : sizes) {
        const int count = static_cast<int>(length);
        Memory out(rank < peer ? mine : theirs, length), in(rank < peer ? theirs : mine, length);
        out.fill(key_of(rank, length, 2));
        MPI_Status status;
        if (rank < peer) {
          MPI_Request request;
          MUST(start(out, peer, in, MPI_ANY_SOURCE, &request));
          MUST(MPI_Wait(&request, &status));
        } else {
          MPI_Request requests[2];
          MPI_Status statuses[2];
          MUST(MPI_Isend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
          MUST(MPI_Irecv(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
          MUST(MPI_Waitall(2, requests, statuses));
          status = statuses[1];
        }
        EXPECT_STATUS(status, peer, tag, length);
        EXPECT_HOLDS(in, key_of(peer, length, 2), length);
      }
    }
  }
}

RANK_TEST(isendrecv, replace_sends_what_was_there_before, 1) {
  if (missing()) return;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (Place place : places) {
    for (size_t length : sizes) {
      Memory buffer(place, length);
      buffer.fill(key_of(rank, length, 3));
      for (int step = 1; step <= 3; ++step) {
        MPI_Request request;
        MPI_Status status;
        MUST(mpi4::Isendrecv_replace(buffer, static_cast<int>(length), MPI_BYTE, next, tag, previous, tag,
                                     MPI_COMM_WORLD, &request));
        MUST(MPI_Wait(&request, &status));
        EXPECT_STATUS(status, previous, tag, length);
        EXPECT_HOLDS(buffer, key_of((rank + step * (size - 1)) % size, length, 3), length);
      }
    }
  }
}

RANK_TEST(isendrecv, layouts_with_gaps_and_large_counts, 2) {
  if (missing()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  // Every second group of 3 ints; the type is freed while the operation is on its way.
  constexpr int groups = 500, ints = 3;
  for (Place from : places) {
    for (Place to : places) {
      MPI_Datatype gaps;
      MUST(MPI_Type_vector(groups, ints, 2 * ints, MPI_INT, &gaps));
      MUST(MPI_Type_commit(&gaps));
      std::vector<int> sent(2 * groups * ints), received(sent.size());
      for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int>(i) + 100000 * rank;
      Memory out(from, sent.size() * sizeof(int)), in(to, sent.size() * sizeof(int));
      out.write(sent.data(), out.bytes());
      std::fill(received.begin(), received.end(), -1);
      in.write(received.data(), in.bytes());
      MPI_Request request;
      MPI_Status status;
      if (mpi4::Isendrecv_c)
        MUST(mpi4::Isendrecv_c(out, 1, gaps, peer, tag, in, 1, gaps, peer, tag, MPI_COMM_WORLD, &request));
      else
        MUST(mpi4::Isendrecv(out, 1, gaps, peer, tag, in, 1, gaps, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Type_free(&gaps));
      MUST(MPI_Wait(&request, &status));
      EXPECT_STATUS(status, peer, tag, groups * ints * sizeof(int));
      in.read(received.data(), in.bytes());
      for (size_t i = 0; i < received.size(); ++i) {
        const int wanted = i / ints % 2 == 0 ? static_cast<int>(i) + 100000 * peer : -1;
        EXPECT(received[i] == wanted, "int %zu is %d, not %d", i, received[i], wanted);
      }
    }
  }
}

RANK_TEST(isendrecv, halves_to_nobody, 1) {
  if (missing()) return;
  for (Place place : places) {
    Memory out(place, bytes), in(place, bytes);
    out.fill(key_of(rank, 4));
    MPI_Request request;
    MPI_Status status;
    MUST(start(out, MPI_PROC_NULL, in, MPI_PROC_NULL, &request));
    MUST(MPI_Wait(&request, &status));
    EXPECT_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    EXPECT_HOLDS(in, 0, 0);
    // Each half alone, to and from this rank itself.
    MPI_Request other;
    MUST(start(out, MPI_PROC_NULL, in, rank, &request));
    MUST(start(out, rank, in, MPI_PROC_NULL, &other));
    MUST(MPI_Wait(&request, &status));
    EXPECT_STATUS(status, rank, tag, bytes);
    EXPECT_HOLDS(in, key_of(rank, 4), bytes);
    MUST(MPI_Wait(&other, &status));
    EXPECT_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MUST(mpi4::Isendrecv_replace(in, bytes, MPI_BYTE, MPI_PROC_NULL, tag, MPI_PROC_NULL, tag, MPI_COMM_WORLD,
                                 &request));
    MUST(MPI_Wait(&request, &status));
    EXPECT_HOLDS(in, key_of(rank, 4), bytes);
  }
}

RANK_TEST(isendrecv, M8_completes_in_arrays_with_other_requests, 2) {
  if (missing()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  enum Call { waitall, testall, waitany, testsome, get_status, calls };
  for (int call = 0; call < calls; ++call) {
    constexpr int count = 5;  // a null request last
    MPI_Request requests[count];
    MPI_Status statuses[count];
    std::vector<Memory> out, in;
    for (int i = 0; i < count - 1; ++i) {
      out.emplace_back(i % 2 == 0 ? Place::device : Place::host, bytes).fill(key_of(rank, i, 5));
      in.emplace_back(i < 2 ? Place::device : Place::host, bytes);
      MUST(start(out[i], peer, in[i], peer, &requests[i]));
    }
    requests[count - 1] = MPI_REQUEST_NULL;
    int done = 0, completed = 0, indices[count];
    switch (call) {
      case waitall:
        MUST(MPI_Waitall(count, requests, statuses));
        break;
      case testall:
        while (!done && MUST(MPI_Testall(count, requests, &done, statuses))) sched_yield();
        break;
      case waitany:
        for (int n = 0; n < count - 1; ++n) {
          MPI_Status status;
          int index = MPI_UNDEFINED;
          MUST(MPI_Waitany(count, requests, &index, &status));
          EXPECT(index >= 0 && index < count - 1, "Waitany gives index %d", index);
          if (index >= 0 && index < count) statuses[index] = status;
        }
        break;
      case testsome:
        while (completed < count - 1) {
          MPI_Status some[count];
          int more = 0;
          if (!MUST(MPI_Testsome(count, requests, &more, indices, some)) || more == MPI_UNDEFINED) break;
          for (int n = 0; n < more; ++n) statuses[indices[n]] = some[n];
          completed += more;
          sched_yield();
        }
        break;
      case get_status:
        for (int i = 0; i < count - 1; ++i) {
          for (done = 0; !done && MUST(MPI_Request_get_status(requests[i], &done, &statuses[i]));)
            sched_yield();
          EXPECT_HOLDS(in[i], key_of(peer, i, 5), bytes);
          MUST(MPI_Wait(&requests[i], &statuses[i]));
        }
        break;
    }
    for (int i = 0; i < count - 1; ++i) {
      EXPECT(requests[i] == MPI_REQUEST_NULL, "request %d is not null after call %d", i, call);
      EXPECT_STATUS(statuses[i], peer, tag, bytes);
      EXPECT_HOLDS(in[i], key_of(peer, i, 5), bytes);
    }
  }
}

RANK_TEST(isendrecv, M3_truncation_is_told_once_and_the_send_arrives, 2) {
  if (missing()) return;
  const int peer = partner();
  MPI_Comm comm;
  MPI_Errhandler handler;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_create_errhandler(count_error, &handler));
  MUST(MPI_Comm_set_errhandler(comm, handler));
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      if (peer == MPI_PROC_NULL) break;
      // Only the lower rank's receive is too short; its memory is not, because Open MPI writes all of it.
      Memory out(from, bytes), in(to, bytes);
      const int capacity = static_cast<int>(rank < peer ? bytes / 2 : bytes);
      out.fill(key_of(rank, 6));
      MPI_Request request;
      MPI_Status status;
      errors_handled = 0;
      MUST(mpi4::Isendrecv(out, bytes, MPI_BYTE, peer, tag, in, capacity, MPI_BYTE, peer, tag, comm,
                           &request));
      const int result = CALL(MPI_Wait(&request, &status));
      if (rank < peer) {
        // MPICH 5 returns MPI_SUCCESS after it has called a handler.
        EXPECT(error_class(result) == MPI_ERR_TRUNCATE || (result == MPI_SUCCESS && errors_handled == 1),
               "a truncated receive gives %s", error_name(result).c_str());
        EXPECT(errors_handled == 1, "the error handler was called %d times", errors_handled);
      } else {
        EXPECT(result == MPI_SUCCESS && errors_handled == 0, "the other rank got %s",
               error_name(result).c_str());
        EXPECT_STATUS(status, peer, tag, bytes);
        EXPECT_HOLDS(in, key_of(peer, 6), bytes);
      }
    }
  }
  MUST(MPI_Errhandler_free(&handler));
  MUST(MPI_Comm_free(&comm));
}

RANK_TEST(isendrecv, M8_freed_requests_still_arrive, 2) {
  if (missing()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      Memory out(from, bytes), in(to, bytes);
      out.fill(key_of(rank, 7));
      MPI_Request request;
      MUST(start(out, peer, in, peer, &request));
      MUST(MPI_Request_free(&request));
      EXPECT(request == MPI_REQUEST_NULL, "Request_free left the handle");
      std::string why;
      int found;
      while (!in.holds(key_of(peer, 7), bytes, &why))
        MUST(MPI_Iprobe(peer, tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
      // The peer may still be polling for what this rank sends.
      MUST(exchange_nothing(peer, tag + 1));
    }
  }
}

RANK_TEST(isendrecv, cancelling_has_no_effect, 2) {
  if (missing()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      Memory out(from, bytes), in(to, bytes);
      out.fill(key_of(rank, 8));
      MPI_Request request;
      MPI_Status status;
      int cancelled = 1;
      MUST(start(out, peer, in, peer, &request));
      MUST(MPI_Cancel(&request));
      MUST(MPI_Wait(&request, &status));
      MUST(MPI_Test_cancelled(&status, &cancelled));
      EXPECT(!cancelled, "an exchange says it was cancelled");
      EXPECT_STATUS(status, peer, tag, bytes);
      EXPECT_HOLDS(in, key_of(peer, 8), bytes);
    }
  }
}

RANK_TEST(isendrecv, M5_goes_on_while_its_ranks_are_in_a_collective, 2) {
  if (missing()) return;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (Place from : places) {
    for (Place to : places) {
      Memory out(from, bytes), in(to, bytes);
      out.fill(key_of(rank, 9));
      MPI_Request request;
      MPI_Status status;
      MUST(start(out, next, in, previous, &request));
      // Rank 0 is in the collective at once, the others complete their exchange with it first.
      if (rank != 0) MUST(MPI_Wait(&request, &status));
      MUST(MPI_Barrier(MPI_COMM_WORLD));
      if (rank == 0) MUST(MPI_Wait(&request, &status));
      EXPECT_STATUS(status, previous, tag, bytes);
      EXPECT_HOLDS(in, key_of(previous, 9), bytes);
    }
  }
}
