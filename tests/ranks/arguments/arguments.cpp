// SPDX-License-Identifier: Apache-2.0
//
// Bad arguments: each call of these tables must return the class of error that the host MPI's own function
// returns for the same arguments on host memory, whatever the memory is and whether device operations are
// active.
//
// The expected class comes from HOST_MPI(X), the host MPI past Fairlead. All
// communicators are of this process alone, so that a call that is not refused cannot wait for anybody.

#include "arguments/arguments.h"

#include <optional>

using namespace ranks;
using namespace ranks::arguments;

namespace {

constexpr int tag = 1, no_tag = -5, no_rank = 7, no_count = -1;

// The same arguments for functions that differ in their mode only.
#define EACH_SEND(...)                                                                               \
  BAD(Send, __VA_ARGS__), BAD(Bsend, __VA_ARGS__), BAD(Ssend, __VA_ARGS__), BAD(Rsend, __VA_ARGS__), \
      STARTS(Isend, __VA_ARGS__), STARTS(Ibsend, __VA_ARGS__), STARTS(Issend, __VA_ARGS__),          \
      STARTS(Irsend, __VA_ARGS__), STARTS(Send_init, __VA_ARGS__),                                   \
      UNLESS_OPEN_MPI(STARTS(Bsend_init, __VA_ARGS__), STARTS(Ssend_init, __VA_ARGS__),              \
                      STARTS(Rsend_init, __VA_ARGS__))

const BadCall sends[] = {
    EACH_SEND(g.buffer, no_count, MPI_BYTE, 0, tag, g.comm),
    EACH_SEND(g.buffer, 1, MPI_DATATYPE_NULL, 0, tag, g.comm),
    EACH_SEND(g.buffer, 1, g.uncommitted, 0, tag, g.comm),
    EACH_SEND(g.buffer, 1, g.uncommitted, MPI_PROC_NULL, tag, g.comm),
    EACH_SEND(g.buffer, 1, MPI_BYTE, no_rank, tag, g.comm),
    EACH_SEND(g.buffer, 1, MPI_BYTE, -7, tag, g.comm),
    EACH_SEND(g.buffer, 1, MPI_BYTE, MPI_ANY_SOURCE, tag, g.comm),
    EACH_SEND(g.buffer, 1, MPI_BYTE, 0, no_tag, g.comm),
    EACH_SEND(g.buffer, 1, MPI_BYTE, MPI_PROC_NULL, no_tag, g.comm),
    EACH_SEND(g.buffer, 1, MPI_BYTE, 0, tag, MPI_COMM_NULL),
    EACH_SEND(nullptr, 1, MPI_BYTE, 0, tag, g.comm),
};

#define EACH_RECEIVE(...) \
  BAD(Recv, __VA_ARGS__, MPI_STATUS_IGNORE), STARTS(Irecv, __VA_ARGS__), STARTS(Recv_init, __VA_ARGS__)

const BadCall receives[] = {
    EACH_RECEIVE(g.buffer, no_count, MPI_BYTE, 0, tag, g.comm),
    EACH_RECEIVE(g.buffer, 1, MPI_DATATYPE_NULL, 0, tag, g.comm),
    EACH_RECEIVE(g.buffer, 1, g.uncommitted, 0, tag, g.comm),
    EACH_RECEIVE(g.buffer, 100, g.uncommitted, 0, tag, g.comm),
    EACH_RECEIVE(g.buffer, 1, g.uncommitted, MPI_PROC_NULL, tag, g.comm),
    EACH_RECEIVE(g.buffer, 1, MPI_BYTE, no_rank, tag, g.comm),
    EACH_RECEIVE(g.buffer, 1, MPI_BYTE, -7, tag, g.comm),
    EACH_RECEIVE(g.buffer, 1, MPI_BYTE, 0, no_tag, g.comm),
    EACH_RECEIVE(g.buffer, 1, MPI_BYTE, MPI_PROC_NULL, no_tag, g.comm),
    EACH_RECEIVE(g.buffer, 1, MPI_BYTE, 0, tag, MPI_COMM_NULL),
    EACH_RECEIVE(nullptr, 1, MPI_BYTE, 0, tag, g.comm),
    EACH_RECEIVE(nullptr, room, MPI_BYTE, 0, tag, g.comm),
    UNLESS_OPEN_MPI_5(EACH_RECEIVE(nullptr, 1, g.derived, 0, tag, g.comm)),
};

#define EACH_MATCHED(...) \
  BAD(Mrecv, __VA_ARGS__, &g.message, MPI_STATUS_IGNORE), STARTS(Imrecv, __VA_ARGS__, &g.message)

const BadCall matched[] = {
    EACH_MATCHED(g.buffer, no_count, MPI_BYTE),
    EACH_MATCHED(g.buffer, 1, MPI_DATATYPE_NULL),
    EACH_MATCHED(g.buffer, 1, g.uncommitted),
    UNLESS_OPEN_MPI(BAD(Mrecv, g.buffer, 1, MPI_BYTE, &g.no_message, MPI_STATUS_IGNORE)),
    UNLESS_OPEN_MPI(STARTS(Imrecv, g.buffer, 1, MPI_BYTE, &g.no_message)),
};

#define EACH_EXCHANGE(...) BAD(Sendrecv, __VA_ARGS__, g.comm, MPI_STATUS_IGNORE)

const BadCall exchanges[] = {
    EACH_EXCHANGE(g.buffer, no_count, MPI_BYTE, 0, tag, g.other, 1, MPI_BYTE, 0, tag),
    EACH_EXCHANGE(g.buffer, 1, g.uncommitted, 0, tag, g.other, 1, MPI_BYTE, 0, tag),
    EACH_EXCHANGE(g.buffer, 1, MPI_BYTE, no_rank, tag, g.other, 1, MPI_BYTE, 0, tag),
    EACH_EXCHANGE(g.buffer, 1, MPI_BYTE, 0, no_tag, g.other, 1, MPI_BYTE, 0, tag),
    EACH_EXCHANGE(g.buffer, 1, MPI_BYTE, 0, tag, g.other, no_count, MPI_BYTE, 0, tag),
    EACH_EXCHANGE(g.buffer, 1, MPI_BYTE, 0, tag, g.other, 1, MPI_DATATYPE_NULL, 0, tag),
    EACH_EXCHANGE(g.buffer, 1, MPI_BYTE, 0, tag, g.other, 1, g.uncommitted, 0, tag),
    EACH_EXCHANGE(g.buffer, 1, MPI_BYTE, 0, tag, g.other, 1, MPI_BYTE, no_rank, tag),
    EACH_EXCHANGE(g.buffer, 1, MPI_BYTE, 0, tag, g.other, 1, MPI_BYTE, 0, no_tag),
    EACH_EXCHANGE(g.buffer, 1, MPI_BYTE, MPI_PROC_NULL, tag, g.other, 1, g.uncommitted, MPI_PROC_NULL, tag),
    BAD(Sendrecv, g.buffer, 1, MPI_BYTE, 0, tag, g.other, 1, MPI_BYTE, 0, tag, MPI_COMM_NULL,
        MPI_STATUS_IGNORE),
    BAD(Sendrecv_replace, g.buffer, no_count, MPI_BYTE, 0, tag, 0, tag, g.comm, MPI_STATUS_IGNORE),
    BAD(Sendrecv_replace, g.buffer, 1, g.uncommitted, 0, tag, 0, tag, g.comm, MPI_STATUS_IGNORE),
    BAD(Sendrecv_replace, g.buffer, 1, MPI_BYTE, no_rank, tag, 0, tag, g.comm, MPI_STATUS_IGNORE),
    BAD(Sendrecv_replace, g.buffer, 1, MPI_BYTE, 0, tag, no_rank, tag, g.comm, MPI_STATUS_IGNORE),
    BAD(Sendrecv_replace, g.buffer, 1, MPI_BYTE, 0, no_tag, 0, tag, g.comm, MPI_STATUS_IGNORE),
};

const BadCall probes[] = {
    BAD(Probe, no_rank, tag, g.comm, &g.status),
    BAD(Probe, 0, no_tag, g.comm, &g.status),
    BAD(Iprobe, no_rank, tag, g.comm, &g.number, &g.status),
    BAD(Iprobe, 0, no_tag, g.comm, &g.number, &g.status),
    UNLESS_OPEN_MPI(BAD(Iprobe, 0, tag, MPI_COMM_NULL, &g.number, &g.status)),
    BAD(Mprobe, no_rank, tag, g.comm, &g.message, &g.status),
    BAD(Mprobe, 0, no_tag, g.comm, &g.message, &g.status),
    BAD(Improbe, no_rank, tag, g.comm, &g.number, &g.message, &g.status),
    BAD(Improbe, 0, no_tag, g.comm, &g.number, &g.message, &g.status),
};

// Null requests are complete, so that a call that is not refused ends.
const BadCall completions[] = {
    BAD(Wait, nullptr, &g.status),
    BAD(Test, nullptr, &g.number, &g.status),
    BAD(Test, g.requests, nullptr, &g.status),
    BAD(Waitall, no_count, g.requests, g.statuses),
    BAD(Waitall, 2, nullptr, g.statuses),
    BAD(Testall, no_count, g.requests, &g.number, g.statuses),
    BAD(Testall, 2, nullptr, &g.number, g.statuses),
    BAD(Testall, 2, g.requests, nullptr, g.statuses),
    BAD(Waitany, no_count, g.requests, &g.number, &g.status),
    BAD(Waitany, 2, nullptr, &g.number, &g.status),
    BAD(Waitany, 2, g.requests, nullptr, &g.status),
    BAD(Testany, no_count, g.requests, &g.number, &g.second, &g.status),
    BAD(Testany, 2, nullptr, &g.number, &g.second, &g.status),
    BAD(Testany, 2, g.requests, nullptr, &g.second, &g.status),
    BAD(Testany, 2, g.requests, &g.number, nullptr, &g.status),
    BAD(Waitsome, no_count, g.requests, &g.number, g.numbers, g.statuses),
    BAD(Waitsome, 2, nullptr, &g.number, g.numbers, g.statuses),
    BAD(Waitsome, 2, g.requests, nullptr, g.numbers, g.statuses),
    BAD(Waitsome, 2, g.requests, &g.number, nullptr, g.statuses),
    BAD(Testsome, no_count, g.requests, &g.number, g.numbers, g.statuses),
    BAD(Testsome, 2, nullptr, &g.number, g.numbers, g.statuses),
    BAD(Testsome, 2, g.requests, nullptr, g.numbers, g.statuses),
    BAD(Testsome, 2, g.requests, &g.number, nullptr, g.statuses),
    BAD(Request_get_status, MPI_REQUEST_NULL, nullptr, &g.status),
    BAD(Request_free, nullptr),
    BAD(Request_free, g.requests),
    BAD(Cancel, nullptr),
    BAD(Cancel, g.requests),
    BAD(Op_free, nullptr),
    UNLESS_MPICH(BAD(Type_free, nullptr), BAD(File_close, nullptr)),
    UNLESS_OPEN_MPI(BAD(Comm_free, nullptr), BAD(Comm_disconnect, nullptr), BAD(Win_free, nullptr)),
    BAD(Isend, g.buffer, 1, MPI_BYTE, 0, tag, g.comm, nullptr),
    BAD(Irecv, g.buffer, 1, MPI_BYTE, 0, tag, g.comm, nullptr),
    BAD(Irecv, g.buffer, room, MPI_BYTE, 0, tag, g.comm, nullptr),
    BAD(Start, nullptr),
    BAD(Start, g.requests),
    BAD(Startall, no_count, g.requests),
    BAD(Startall, 2, nullptr),
    BAD(Startall, 2, g.requests),
#if defined(MPICH_VERSION)  // null is MPI_STATUS_IGNORE elsewhere
    BAD(Wait, g.requests, nullptr),
    BAD(Test, g.requests, &g.number, nullptr),
    BAD(Waitall, 2, g.requests, nullptr),
    BAD(Testall, 2, g.requests, &g.number, nullptr),
    BAD(Waitany, 2, g.requests, &g.number, nullptr),
    BAD(Testany, 2, g.requests, &g.number, &g.second, nullptr),
    BAD(Waitsome, 2, g.requests, &g.number, g.numbers, nullptr),
    BAD(Testsome, 2, g.requests, &g.number, g.numbers, nullptr),
#endif
};

#define EACH_PARTITIONED(...) STARTS(Psend_init, __VA_ARGS__), STARTS(Precv_init, __VA_ARGS__)
#define INFO g.comm, MPI_INFO_NULL

#if !defined(OPEN_MPI)  // 4 has none
const BadCall partitioned[] = {
    EACH_PARTITIONED(g.buffer, 1, no_count, MPI_BYTE, 0, tag, INFO),
    EACH_PARTITIONED(g.buffer, 1, 1, MPI_DATATYPE_NULL, 0, tag, INFO),
    EACH_PARTITIONED(g.buffer, 1, 1, g.uncommitted, 0, tag, INFO),
    EACH_PARTITIONED(g.buffer, 1, 1, MPI_BYTE, no_rank, tag, INFO),
    EACH_PARTITIONED(g.buffer, 1, 1, MPI_BYTE, 0, no_tag, INFO),
    EACH_PARTITIONED(g.buffer, -1, 1, MPI_BYTE, 0, tag, INFO),
};
#endif

const BadCall packs[] = {
    BAD(Pack, g.buffer, no_count, MPI_BYTE, g.other, room, &g.number, g.comm),
    BAD(Pack, g.buffer, 1, MPI_DATATYPE_NULL, g.other, room, &g.number, g.comm),
    BAD(Pack, g.buffer, 1, g.uncommitted, g.other, room, &g.number, g.comm),
    BAD(Pack, g.buffer, 1, MPI_BYTE, g.other, no_count, &g.number, g.comm),
    BAD(Pack, g.buffer, 1, MPI_BYTE, g.other, room, nullptr, g.comm),
    BAD(Pack, g.buffer, 1, MPI_BYTE, g.other, room, &g.number, MPI_COMM_NULL),
    UNLESS_MPICH(BAD(Pack, g.buffer, 9, MPI_BYTE, g.other, 8, &g.number, g.comm)),
    UNLESS_MPICH(BAD(Pack, g.buffer, 1, MPI_BYTE, nullptr, room, &g.number, g.comm)),
    BAD(Unpack, g.buffer, room, &g.number, g.other, no_count, MPI_BYTE, g.comm),
    BAD(Unpack, g.buffer, room, &g.number, g.other, 1, MPI_DATATYPE_NULL, g.comm),
    BAD(Unpack, g.buffer, room, &g.number, g.other, 1, g.uncommitted, g.comm),
    UNLESS_OPEN_MPI(BAD(Unpack, g.buffer, no_count, &g.number, g.other, 1, MPI_BYTE, g.comm)),
    BAD(Unpack, g.buffer, room, nullptr, g.other, 1, MPI_BYTE, g.comm),
    BAD(Unpack, g.buffer, room, &g.number, g.other, 1, MPI_BYTE, MPI_COMM_NULL),
    UNLESS_MPICH(BAD(Unpack, g.buffer, 8, &g.number, g.other, 9, MPI_BYTE, g.comm)),
    UNLESS_MPICH(BAD(Unpack, nullptr, room, &g.number, g.other, 1, MPI_BYTE, g.comm)),
    BAD(Pack_external, "external32", g.buffer, no_count, MPI_BYTE, g.other, room, &g.place),
    BAD(Pack_external, "external32", g.buffer, 1, g.uncommitted, g.other, room, &g.place),
    BAD(Pack_external, "external32", g.buffer, 1, MPI_DATATYPE_NULL, g.other, room, &g.place),
    BAD(Unpack_external, "external32", g.buffer, room, &g.place, g.other, no_count, MPI_BYTE),
    BAD(Unpack_external, "external32", g.buffer, room, &g.place, g.other, 1, g.uncommitted),
    BAD(Unpack_external, "external32", g.buffer, room, &g.place, g.other, 1, MPI_DATATYPE_NULL),
};

// The objects that the calls are given, but for the buffers.
class Objects {
 public:
  Objects() {
    // Errors of calls without a communicator, and of requests, are raised on one of these.
    for (int i = 0; i < 2; ++i) {
      MUST(MPI_Comm_get_errhandler(always_there[i], &handlers_[i]));
      MUST(MPI_Comm_set_errhandler(always_there[i], MPI_ERRORS_RETURN));
    }
    MUST(MPI_Comm_dup(MPI_COMM_SELF, &given_.comm));
    const int one = 1;
    MUST(MPI_Cart_create(MPI_COMM_SELF, 1, &one, &one, 0, &given_.grid));
    MUST(MPI_Type_vector(2, 1, 2, MPI_INT, &given_.derived));
    MUST(MPI_Type_commit(&given_.derived));
    MUST(MPI_Type_vector(2, 1, 2, MPI_INT, &given_.uncommitted));
    MUST(MPI_Comm_group(MPI_COMM_SELF, &given_.group));
  }
  ~Objects() {
    MUST(MPI_Group_free(&given_.group));
    MUST(MPI_Type_free(&given_.uncommitted));
    MUST(MPI_Type_free(&given_.derived));
    MUST(MPI_Comm_free(&given_.grid));
    MUST(MPI_Comm_free(&given_.comm));
    for (int i = 0; i < 2; ++i) {
      MUST(MPI_Comm_set_errhandler(always_there[i], handlers_[i]));
      MUST(MPI_Errhandler_free(&handlers_[i]));
    }
  }
  // The same for two buffers.
  Given with(const Memory& buffer, const Memory& other) const {
    Given given = given_;
    given.buffer = buffer.data();
    given.other = other.data();
    return given;
  }
  MPI_Comm comm() const { return given_.comm; }

 private:
  const MPI_Comm always_there[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
  MPI_Errhandler handlers_[2];
  Given given_;
};

// A message of this process to itself that a probe has matched, for the life of this.
class MatchedMessage {
 public:
  explicit MatchedMessage(const Objects& objects) : comm_(objects.comm()) {
    MUST(HOST_MPI(Isend)(nullptr, 0, MPI_BYTE, 0, tag, comm_, &sent_));
    MUST(HOST_MPI(Mprobe)(0, tag, comm_, &message, MPI_STATUS_IGNORE));
  }
  ~MatchedMessage() {
    MUST(HOST_MPI(Mrecv)(nullptr, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE));
    MUST(HOST_MPI(Wait)(&sent_, MPI_STATUS_IGNORE));
  }
  MPI_Message message = MPI_MESSAGE_NULL;

 private:
  MPI_Comm comm_;
  MPI_Request sent_ = MPI_REQUEST_NULL;
};

// A device operation that is active for the life of this.
class ActiveReceive {
 public:
  explicit ActiveReceive(MPI_Comm comm) : memory_(Place::device, room) {
    MUST(MPI_Irecv(memory_, room, MPI_BYTE, 0, 99, comm, &request_));
  }
  ~ActiveReceive() {
    MUST(MPI_Cancel(&request_));
    MUST(MPI_Wait(&request_, MPI_STATUS_IGNORE));
  }

 private:
  Memory memory_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// A window of `given.buffer`, made by the host MPI alone or as programs do.
class TheWindow {
 public:
  TheWindow(Given& given, Window state, bool of_host) : given_(given), state_(state), of_host_(of_host) {
    if (state == Window::none) return;
    MUST((of_host ? HOST_MPI(Win_create) : MPI_Win_create)(given.buffer, room, 1, MPI_INFO_NULL,
                                                           MPI_COMM_WORLD, &given.win));
    MUST(MPI_Win_set_errhandler(given.win, MPI_ERRORS_RETURN));
    fence();
  }
  ~TheWindow() {
    if (state_ == Window::none) return;
    fence();
    MUST((of_host_ ? HOST_MPI(Win_free) : MPI_Win_free)(&given_.win));
  }

 private:
  void fence() {
    if (state_ == Window::fenced) MUST((of_host_ ? HOST_MPI(Win_fence) : MPI_Win_fence)(0, given_.win));
  }
  Given& given_;
  Window state_;
  bool of_host_;
};

int class_of(int (*call)(Given&), const BadCall& bad, const Given& given) {
  Given own = given;  // a call may have written to what it was given
  at(__FILE__, __LINE__, bad.text);
  return error_class(call(own));
}

void expect_errors_on(Place place, std::span<const BadCall> calls, Window window, const char* while_what) {
  Objects objects;
  Memory memory[] = {{Place::host, room}, {Place::host, room}, {place, room}, {place, room}};
  Given on_host = objects.with(memory[0], memory[1]), given = objects.with(memory[2], memory[3]);
  TheWindow of_host(on_host, window, true), of_program(given, window, false);
  MatchedMessage matched(objects);
  on_host.message = given.message = matched.message;
  for (const BadCall& call : calls) {
    if (!call.text) continue;
    const int expected = class_of(call.host, call, on_host);
    EXPECT(expected != MPI_SUCCESS, "%s is no error for this MPI", call.text);
    if (expected == MPI_SUCCESS) continue;
    const int found = class_of(call.subject, call, given);
    EXPECT(found == expected, "%s on %s memory%s returned %s, not %s", call.text, to_string(place),
           while_what, error_name(found).c_str(), error_name(expected).c_str());
  }
}

}  // namespace

void ranks::arguments::expect_errors_of_host(std::span<const BadCall> calls, Window window) {
  for (Place place : {Place::host, Place::managed, Place::device}) {
    expect_errors_on(place, calls, window, "");
    ActiveReceive active(MPI_COMM_SELF);
    expect_errors_on(place, calls, window, " while a device operation is active");
  }
}

RANK_TEST(arguments, of_sends, 1) {
  expect_errors_of_host(sends);
}
RANK_TEST(arguments, of_receives, 1) {
  expect_errors_of_host(receives);
}
RANK_TEST(arguments, of_matched_receives, 1) {
  expect_errors_of_host(matched);
}
RANK_TEST(arguments, of_exchanges, 1) {
  expect_errors_of_host(exchanges);
}
RANK_TEST(arguments, of_probes, 1) {
  expect_errors_of_host(probes);
}
RANK_TEST(arguments, of_completion_calls, 1) {
  expect_errors_of_host(completions);
}
#if !defined(OPEN_MPI)
RANK_TEST(arguments, of_partitioned_messages, 1) {
  expect_errors_of_host(partitioned);
}
#endif
RANK_TEST(arguments, of_packs, 1) {
  expect_errors_of_host(packs);
}

RANK_TEST(arguments, what_cannot_be_started_is_not, 1) {
  Objects objects;
  Memory host(Place::host, room), device(Place::device, room);
  MPI_Request request = MPI_REQUEST_NULL;
  // What the host MPI says of a request that is not persistent, and of one that is active.
  MUST(HOST_MPI(Irecv)(host, room, MPI_BYTE, 0, tag, objects.comm(), &request));
  MPI_Request same = request;
  const int of_others = error_class(CALL(HOST_MPI(Start)(&same)));
  MUST(HOST_MPI(Cancel)(&request));
  MUST(HOST_MPI(Wait)(&request, MPI_STATUS_IGNORE));

  MUST(MPI_Irecv(device, room, MPI_BYTE, 0, tag, objects.comm(), &request));
  same = request;
  EXPECT_ERROR(MPI_Start(&same), of_others);
  EXPECT_ERROR(MPI_Startall(1, &same), of_others);
  MUST(MPI_Cancel(&request));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));

  MUST(MPI_Recv_init(device, room, MPI_BYTE, 0, tag, objects.comm(), &request));
  MUST(MPI_Start(&request));
  if (!host_oracle) EXPECT_ERROR(MPI_Start(&request), of_others);  // Open MPI 4.1 starts it again
  MUST(MPI_Cancel(&request));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MUST(MPI_Request_free(&request));
}

// Also where it was wrong on ranks with memory of different kinds.
RANK_TEST(arguments, collectives_after_a_wrong_one_are_right, 2) {
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  for (Place place : {Place::device, rank % 2 ? Place::host : Place::device}) {
    Memory buffer(place, room), device(Place::device, room);
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_ERROR(MPI_Bcast(buffer, -1, MPI_BYTE, 0, comm), MPI_ERR_COUNT);
    EXPECT_ERROR(MPI_Bcast(buffer, 1, MPI_BYTE, -7, comm), MPI_ERR_ROOT);
    EXPECT_ERROR(MPI_Ibcast(buffer, -1, MPI_BYTE, 0, comm, &request), MPI_ERR_COUNT);
    // Wrong in another way on each rank.
    const int wrong_count = rank == 0 ? 1 : -1, wrong_root = rank == 0 ? -7 : 0;
    EXPECT(MPI_Gather(buffer, wrong_count, MPI_BYTE, MPI_IN_PLACE, 1, MPI_BYTE, 0, comm) != MPI_SUCCESS,
           "a gather of %d bytes into MPI_IN_PLACE is no error", wrong_count);
    EXPECT(MPI_Ibcast(buffer, wrong_count, MPI_BYTE, wrong_root, comm, &request) != MPI_SUCCESS,
           "a broadcast of %d bytes from rank %d is no error", wrong_count, wrong_root);
    for (Memory* right : {&device, &buffer}) {
      if (rank == 0) right->fill(key_of(7));
      MUST(MPI_Bcast(*right, room, MPI_BYTE, 0, comm));
      EXPECT_HOLDS(*right, key_of(7), room);
    }
  }
  MUST(MPI_Comm_free(&comm));
}
