// SPDX-License-Identifier: Apache-2.0
//
// M3: a message longer than the receive gives MPI_ERR_TRUNCATE through the communicator's error handler,
// leaves the bytes beyond the receive buffer alone, lets the sender complete, and harms no later message.

#include <cstdlib>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 13;

struct Lengths {
  size_t sent;
  size_t room;
};
// Room below, at and above a descriptor's length; messages that travel as payload and otherwise.
constexpr Lengths lengths[] = {{8, 4},      {64, 63},   {100, 0},      {100, 64},         {4096, 8},
                               {4096, 128}, {65, 64},   {100000, 70},  {100000, 99999},   {1 << 20, 100},
                               {3, 2},      {129, 128}, {1 << 20, 64}, {1 << 20, 1 << 19}};

int handler_calls = 0;
int handler_code = MPI_SUCCESS;
MPI_Comm handler_comm = MPI_COMM_NULL;

void note_error(MPI_Comm* comm, int* code, ...) {
  ++handler_calls;
  handler_code = *code;
  handler_comm = *comm;
}

// Open MPI (seen with 4.1.4 and 5.0.11) writes the whole of a truncated rendezvous message when both ends are
// host memory.
#if defined(OPEN_MPI)
constexpr bool host_mpi_overruns = true;
#else
constexpr bool host_mpi_overruns = false;
#endif

// MPICH reports errors of Wait and Mrecv to the handler of MPI_COMM_WORLD, not to the communicator's.
#if defined(MPICH_VERSION)
constexpr bool host_mpi_forgets_communicator = true;
#else
constexpr bool host_mpi_forgets_communicator = false;
#endif

// MPICH 5 (seen with 5.0.2) reports an error that a user's handler has seen as success.
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 50000000
constexpr bool host_mpi_forgets_handled_errors = true;
#else
constexpr bool host_mpi_forgets_handled_errors = false;
#endif

// Nothing beyond the room may change. What the room itself holds after a truncation is the MPI's business.
void expect_nothing_beyond(const Memory& buffer, size_t room, Place from) {
  // Between nodes a short device message is staged through host memory.
  static const bool between_nodes = getenv("FAIRLEAD_NODES") != nullptr;
  const bool plain = from == Place::host || between_nodes;
  const bool host_ends = host_oracle || (plain && buffer.place() == Place::host);
  if (host_ends && host_mpi_overruns) return;
  std::vector<unsigned char> found(buffer.bytes());
  buffer.read(found.data(), found.size());
  for (size_t i = room; i < found.size(); ++i) {
    EXPECT(found[i] == 0xa5, "byte %zu changed, behind room of %zu bytes in %s memory", i, room,
           to_string(buffer.place()));
    if (found[i] != 0xa5) return;
  }
}

// A message that fits, to prove that the communicator still works.
void expect_traffic(MPI_Comm comm, int peer, bool sender, Place from, Place to) {
  constexpr size_t bytes = 10000;
  if (sender) {
    Memory buffer(from, bytes);
    buffer.fill(key_of(5));
    MUST(MPI_Send(buffer, bytes, MPI_BYTE, peer, tag, comm));
  } else {
    Memory buffer(to, bytes);
    MPI_Status status;
    MUST(MPI_Recv(buffer, bytes, MPI_BYTE, peer, tag, comm, &status));
    EXPECT_STATUS(status, peer, tag, bytes);
    EXPECT_HOLDS(buffer, key_of(5), bytes);
  }
}

// Runs `body(from, to, lengths)` for all pairs of places and all lengths.
template <typename Body>
void for_all(Body body) {
  for (Place from : host_and_device)
    for (Place to : host_and_device)
      for (Lengths l : lengths) body(from, to, l);
}

}  // namespace

RANK_TEST(truncation, M3_blocking_receive_returns_truncate, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for_all([&](Place from, Place to, Lengths l) {
    if (rank < peer) {
      Memory buffer(from, l.sent);
      buffer.fill(key_of(l.sent));
      MUST(MPI_Send(buffer, static_cast<int>(l.sent), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    } else {
      Memory buffer(to, l.sent);
      EXPECT_ERROR(
          MPI_Recv(buffer, static_cast<int>(l.room), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPI_ERR_TRUNCATE);
      expect_nothing_beyond(buffer, l.room, from);
    }
    expect_traffic(MPI_COMM_WORLD, peer, rank < peer, from, to);
  });
}

RANK_TEST(truncation, M3_posted_receive_reports_truncate_in_wait, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for_all([&](Place from, Place to, Lengths l) {
    if (rank < peer) {
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      Memory buffer(from, l.sent);
      buffer.fill(key_of(l.sent));
      MPI_Request request;
      MUST(MPI_Isend(buffer, static_cast<int>(l.sent), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
      Memory buffer(to, l.sent);
      MPI_Request request;
      MUST(MPI_Irecv(buffer, static_cast<int>(l.room), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD));
      EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
      EXPECT(request == MPI_REQUEST_NULL, "the failed request is still there");
      expect_nothing_beyond(buffer, l.room, from);
    }
    expect_traffic(MPI_COMM_WORLD, peer, rank < peer, from, to);
  });
}

RANK_TEST(truncation, M3_waitall_names_the_truncated_one, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int count = 5, bad = 3;
  for_all([&](Place from, Place to, Lengths l) {
    if (rank < peer) {
      std::vector<Memory> buffers;
      MPI_Request requests[count];
      for (int i = 0; i < count; ++i) {
        buffers.emplace_back(i % 2 == 1 ? from : Place::host, l.sent);
        buffers[i].fill(key_of(l.sent, i));
        MUST(MPI_Isend(buffers[i], static_cast<int>(l.sent), MPI_BYTE, peer, tag + i, MPI_COMM_WORLD,
                       &requests[i]));
      }
      MUST(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
      return;
    }
    std::vector<Memory> buffers;
    MPI_Request requests[count];
    MPI_Status statuses[count];
    for (int i = 0; i < count; ++i) {
      buffers.emplace_back(to, l.sent);
      const size_t room = i == bad ? l.room : l.sent;
      MUST(MPI_Irecv(buffers[i], static_cast<int>(room), MPI_BYTE, peer, tag + i, MPI_COMM_WORLD,
                     &requests[i]));
    }
    EXPECT_ERROR(MPI_Waitall(count, requests, statuses), MPI_ERR_IN_STATUS);
    // A Waitall that meets an error may leave others pending; each says so in its status.
    for (int i = 0; i < count; ++i) {
      const int error = statuses[i].MPI_ERROR;
      if (i == bad) {
        EXPECT(error_class(error) == MPI_ERR_TRUNCATE, "status %d has %s", i, error_name(error).c_str());
        expect_nothing_beyond(buffers[i], l.room, from);
        continue;
      }
      EXPECT(error == MPI_SUCCESS || error_class(error) == MPI_ERR_PENDING, "status %d has %s", i,
             error_name(error).c_str());
      MPI_Status status = statuses[i];
      if (error != MPI_SUCCESS) MUST(MPI_Wait(&requests[i], &status));
      EXPECT_STATUS(status, peer, tag + i, l.sent);
      EXPECT_HOLDS(buffers[i], key_of(l.sent, i), l.sent);
    }
  });
}

RANK_TEST(truncation, M3_error_handler_of_the_communicator_is_called_once, 2) {
  const int peer = partner();
  MPI_Comm comm;
  MPI_Errhandler handler;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_create_errhandler(note_error, &handler));
  MUST(MPI_Comm_set_errhandler(comm, handler));
  for_all([&](Place from, Place to, Lengths l) {
    if (peer == MPI_PROC_NULL) return;
    if (rank < peer) {
      Memory buffer(from, l.sent);
      buffer.fill(key_of(l.sent));
      handler_calls = 0;
      MUST(MPI_Send(buffer, static_cast<int>(l.sent), MPI_BYTE, peer, tag, comm));
      MUST(MPI_Send(buffer, static_cast<int>(l.sent), MPI_BYTE, peer, tag, comm));
      MUST(MPI_Send(buffer, static_cast<int>(l.sent), MPI_BYTE, peer, tag, comm));
      EXPECT(handler_calls == 0, "the sender's error handler was called");
      return;
    }
    Memory buffer(to, l.sent);
    const auto expect_truncated = [&](const char* where, int result, bool may_be_forgotten) {
      const bool by_host = host_oracle || to != Place::device;
      if (!(host_mpi_forgets_handled_errors && by_host && result == MPI_SUCCESS && handler_calls == 1))
        EXPECT(error_class(result) == MPI_ERR_TRUNCATE, "%s returned %s", where, error_name(result).c_str());
      if (handler_calls == 0 && may_be_forgotten) return;
      EXPECT(handler_calls == 1,
             "%s called the error handler %d times (%zu bytes of %s to room of %zu in %s)", where,
             handler_calls, l.sent, to_string(from), l.room, to_string(to));
      EXPECT(handler_comm == comm, "%s gave the error handler another communicator", where);
      EXPECT(error_class(handler_code) == MPI_ERR_TRUNCATE, "%s gave the error handler %s", where,
             error_name(handler_code).c_str());
      handler_calls = 0;
    };
    handler_calls = 0;
    int result = MPI_Recv(buffer, static_cast<int>(l.room), MPI_BYTE, peer, tag, comm, MPI_STATUS_IGNORE);
    expect_truncated("MPI_Recv", result, false);
    MPI_Request request;
    MUST(MPI_Irecv(buffer, static_cast<int>(l.room), MPI_BYTE, peer, tag, comm, &request));
    result = MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect_truncated("MPI_Wait", result,
                     host_mpi_forgets_communicator && (host_oracle || to != Place::device));
    MPI_Message message;
    MUST(MPI_Mprobe(peer, tag, comm, &message, MPI_STATUS_IGNORE));
    result = MPI_Mrecv(buffer, static_cast<int>(l.room), MPI_BYTE, &message, MPI_STATUS_IGNORE);
    expect_truncated("MPI_Mrecv", result, host_mpi_forgets_communicator);
  });
  MUST(MPI_Comm_free(&comm));
  MUST(MPI_Errhandler_free(&handler));
}

RANK_TEST(truncation, M3_the_sender_completes_whatever_call_meets_the_truncation, 2) {
  // The receive is too short for a descriptor, so that the host MPI alone completes it.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t sent = 1 << 20;  // beyond the eager limit
  using Complete = int (*)(MPI_Request*, int*);
  const Complete calls[] = {
      [](MPI_Request* request, int* done) { return MPI_Test(request, done, MPI_STATUS_IGNORE); },
      [](MPI_Request* request, int* done) { return MPI_Testall(1, request, done, MPI_STATUSES_IGNORE); },
      [](MPI_Request* request, int* done) {
        int index;
        return MPI_Testany(1, request, &index, done, MPI_STATUS_IGNORE);
      },
      [](MPI_Request* request, int* done) {
        int index;
        return MPI_Testsome(1, request, done, &index, MPI_STATUSES_IGNORE);
      },
      [](MPI_Request* request, int*) { return MPI_Wait(request, MPI_STATUS_IGNORE); },
      [](MPI_Request* request, int*) { return MPI_Waitall(1, request, MPI_STATUSES_IGNORE); },
      [](MPI_Request* request, int*) {
        int index;
        return MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
      },
      [](MPI_Request* request, int*) {
        int count, index;
        return MPI_Waitsome(1, request, &count, &index, MPI_STATUSES_IGNORE);
      },
  };
  for (Complete complete : calls) {
    if (rank < peer) {
      Memory buffer(Place::device, sent);
      MUST(MPI_Send(buffer, sent, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD));
    } else {
      // Open MPI may write beyond the receive (see above): room for all of it, in the oracle too.
      Memory buffer(Place::host, sent);
      MPI_Request request;
      MUST(MPI_Irecv(buffer, 4, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      int result = MPI_SUCCESS;
      for (int done = 0; !done && result == MPI_SUCCESS && request != MPI_REQUEST_NULL;)
        result = CALL(complete(&request, &done));
      const int expected = error_class(result);
      EXPECT(expected == MPI_ERR_TRUNCATE || expected == MPI_ERR_IN_STATUS, "the receive returned %s",
             error_name(result).c_str());
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
  }
}

RANK_TEST(truncation, M3_a_thousand_swallowed_messages_take_nothing_away, 2) {
  // A rank has 256 offers; ctest `leaks.swallowed` counts what is left of them.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int messages = 1000, bytes = 3000;
  if (rank < peer) {
    Memory buffer(Place::device, bytes);
    buffer.fill(key_of(7));
    for (int i = 0; i < messages; ++i) MUST(MPI_Send(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
  } else {
    Memory buffer(Place::host, bytes);  // room for all of it: Open MPI may write it
    for (int i = 0; i < messages; ++i) {
      MPI_Request request;
      switch (i % 4) {
        case 0:
          EXPECT_ERROR(MPI_Recv(buffer, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                       MPI_ERR_TRUNCATE);
          break;
        case 1:
          MUST(MPI_Irecv(buffer, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
          EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
          break;
        case 2:
          EXPECT_ERROR(MPI_Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, tag, buffer, 0, MPI_BYTE, peer, tag,
                                    MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                       MPI_ERR_TRUNCATE);
          break;
        case 3:
          EXPECT_ERROR(MPI_Recv(buffer, 4, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                       MPI_ERR_TRUNCATE);
          break;
      }
    }
  }
  // Receives of nothing still take what they are meant for.
  for (int i = 0; i < 3; ++i) {
    MPI_Status status;
    MPI_Request request;
    if (rank < peer) {
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    } else {
      MUST(MPI_Recv(nullptr, 0, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD, &status));
      EXPECT_STATUS(status, peer, tag, 0);
      MUST(MPI_Irecv(nullptr, 0, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Wait(&request, &status));
      EXPECT_STATUS(status, peer, tag, 0);
    }
    expect_traffic(MPI_COMM_WORLD, peer, rank < peer, Place::device, Place::device);
  }
}

RANK_TEST(truncation, M3_a_truncated_message_proves_no_path, 2) {
  // The receiver has not fetched anything from this allocation, and may not be able to (ctest
  // `faults.first_is_truncated`): before the sender leaves for the barrier, the second message must be where
  // the receiver gets it alone.
  const int peer = partner();
  constexpr size_t bytes = 1 << 20;
  Memory buffer(peer != MPI_PROC_NULL && rank < peer ? Place::device : Place::host, bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  if (peer == MPI_PROC_NULL) {
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    return;
  }
  if (rank < peer) {
    buffer.fill(key_of(6));
    MUST(MPI_Send(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    MUST(MPI_Isend(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
  } else {
    EXPECT_ERROR(MPI_Recv(buffer, 1000, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                 MPI_ERR_TRUNCATE);
    buffer.clear();
    MUST(MPI_Recv(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_HOLDS(buffer, key_of(6), bytes);
  }
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
}
