// SPDX-License-Identifier: Apache-2.0
//
// M4 for buffered sends of device memory: they obey the accounting of the attached buffer as host sends do.
// What fits by the standard's rule is taken, what does not fit gives MPI_ERR_BUFFER and is not sent, and
// detaching waits until all has been delivered.

#include "harness/exposed.h"
#include "harness/mpi4.h"

using namespace ranks;

namespace {

constexpr int tag = 61;
constexpr int go = 62;
constexpr size_t bytes = 50000;
constexpr int messages = 4;

void signal_to(int peer) {
  MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
}
void await_signal(int peer) {
  MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

// An attached buffer with exactly the room that the standard asks for.
class Attached {
 public:
  Attached(int messages, int count, MPI_Datatype datatype) {
    int packed = 0;
    MUST(MPI_Pack_size(count, datatype, MPI_COMM_WORLD, &packed));
    memory_.resize(static_cast<size_t>(messages) * static_cast<size_t>(packed + MPI_BSEND_OVERHEAD));
    MUST(MPI_Buffer_attach(memory_.data(), static_cast<int>(memory_.size())));
  }
  void detach() {
    void* address = nullptr;
    int size = 0;
    MUST(MPI_Buffer_detach(&address, &size));
    EXPECT(address == memory_.data() && size == static_cast<int>(memory_.size()),
           "detach returned %p of %d bytes", address, size);
    // It is the user's again: nothing that is still on its way may lie in it.
    std::fill(memory_.begin(), memory_.end(), 'x');
  }

 private:
  std::vector<char> memory_;
};

void receive(Place to, int peer, uint64_t key) {
  Memory in(to, bytes);
  MPI_Status status;
  MUST(MPI_Recv(in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
  EXPECT_STATUS(status, peer, tag, bytes);
  EXPECT_HOLDS(in, key, bytes);
}

}  // namespace

RANK_TEST(buffered, M4_all_forms_fit_into_the_room_of_the_standard, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  enum Form { blocking, nonblocking, persistent, forms };
  for (Place from : host_and_device) {
    for (int form = 0; form < forms; ++form) {
      if (rank < peer) {
        Attached attached(messages, bytes, MPI_BYTE);
        Memory out(from, bytes);
        MPI_Request request = MPI_REQUEST_NULL;
        if (form == persistent)
          MUST(MPI_Bsend_init(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
        for (int i = 0; i < messages; ++i) {
          out.fill(key_of(i, form, 1));
          switch (form) {
            case blocking:
              MUST(MPI_Bsend(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
              break;
            case nonblocking:
              MUST(MPI_Ibsend(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
              break;
            case persistent:
              MUST(MPI_Start(&request));
              break;
          }
          MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        out.fill(key_of(9));
        if (form == persistent) MUST(MPI_Request_free(&request));
        signal_to(peer);  // only now the peer receives
        attached.detach();
      } else {
        await_signal(peer);
        for (int i = 0; i < messages; ++i)
          receive(i % 2 == 0 ? Place::device : Place::host, peer, key_of(i, form, 1));
      }
    }
  }
}

RANK_TEST(buffered, M4_layouts_with_gaps_take_the_room_of_what_travels, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int ints = 1000;
  MPI_Datatype gaps;
  MUST(MPI_Type_vector(ints, 1, 3, MPI_INT, &gaps));
  MUST(MPI_Type_commit(&gaps));
  for (Place from : host_and_device) {
    std::vector<int> values(3 * ints), received(ints);
    for (int i = 0; i < 3 * ints; ++i) values[static_cast<size_t>(i)] = i;
    if (rank < peer) {
      Attached attached(2, 1, gaps);
      Memory out(from, values.size() * sizeof(int));
      out.write(values.data(), out.bytes());
      for (int i = 0; i < 2; ++i) MUST(MPI_Bsend(out, 1, gaps, peer, tag, MPI_COMM_WORLD));
      signal_to(peer);
      attached.detach();
    } else {
      await_signal(peer);
      for (int i = 0; i < 2; ++i) {
        Memory in(Place::device, ints * sizeof(int));
        MUST(MPI_Recv(in, ints, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        in.read(received.data(), in.bytes());
        for (int n = 0; n < ints; ++n)
          EXPECT(received[static_cast<size_t>(n)] == 3 * n, "int %d is %d", n,
                 received[static_cast<size_t>(n)]);
      }
    }
  }
  MUST(MPI_Type_free(&gaps));
}

RANK_TEST(buffered, M4_room_comes_back_when_messages_are_delivered, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 10;
  if (rank < peer) {
    Attached attached(1, bytes, MPI_BYTE);
    for (int round = 0; round < rounds; ++round) {
      Memory out(Place::device, bytes);
      out.fill(key_of(round, 2));
      MUST(MPI_Bsend(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      await_signal(peer);
    }
    attached.detach();
  } else {
    for (int round = 0; round < rounds; ++round) {
      receive(round % 2 == 0 ? Place::device : Place::host, peer, key_of(round, 2));
      signal_to(peer);
    }
  }
}

RANK_TEST(buffered, M4_what_does_not_fit_is_an_error_as_for_host_memory, 2) {
  // On communicators of their own, because a failed Bsend leaves a gap in Open MPI's sequence of messages.
  const int peer = partner();
  for (bool attach : {true, false}) {
    int outcomes[2];
    for (int kind = 0; kind < 2; ++kind) {
      MPI_Comm comm;
      MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
      int sent = 0;
      if (peer != MPI_PROC_NULL && rank < peer) {
        std::vector<char> small(1000 + MPI_BSEND_OVERHEAD);
        void* address;
        int size_back;
        if (attach) MUST(MPI_Buffer_attach(small.data(), static_cast<int>(small.size())));
        Memory out(host_and_device[kind], bytes);
        out.fill(key_of(kind, 3));
        outcomes[kind] = error_class(CALL(MPI_Bsend(out, bytes, MPI_BYTE, peer, tag, comm)));
        sent = outcomes[kind] == MPI_SUCCESS;
        MUST(MPI_Send(&sent, 1, MPI_INT, peer, go, MPI_COMM_WORLD));
        if (attach) MUST(MPI_Buffer_detach(&address, &size_back));
      } else if (peer != MPI_PROC_NULL) {
        MUST(MPI_Recv(&sent, 1, MPI_INT, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (sent) {
          Memory in(Place::device, bytes);
          MUST(MPI_Recv(in, bytes, MPI_BYTE, peer, tag, comm, MPI_STATUS_IGNORE));
          EXPECT_HOLDS(in, key_of(kind, 3), bytes);
        }
      }
      MUST(MPI_Comm_free(&comm));
    }
    if (peer != MPI_PROC_NULL && rank < peer)
      EXPECT(outcomes[0] == outcomes[1] && outcomes[0] == MPI_ERR_BUFFER,
             "Bsend beyond %s gives error class %d from host, %d from device memory, not %d",
             attach ? "the attached buffer" : "no buffer", outcomes[0], outcomes[1], MPI_ERR_BUFFER);
  }
}

// As mpi4py's tests do, which make the buffer of the kind of array under test.
RANK_TEST(buffered, M4_the_attached_buffer_may_be_device_memory, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Memory in(Place::device, bytes), out(Place::device, bytes),
      space(Place::device, bytes + MPI_BSEND_OVERHEAD);
  out.fill(key_of(rank, 4));
  MUST(MPI_Buffer_attach(space, static_cast<int>(space.bytes())));
  MUST(MPI_Bsend(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
  MUST(MPI_Recv(in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_HOLDS(in, key_of(peer, 4), bytes);
  void* address = nullptr;
  int size_back = 0;
  MUST(MPI_Buffer_detach(&address, &size_back));
  EXPECT(address == space.data() && size_back == static_cast<int>(space.bytes()), "detached %p, %d bytes",
         address, size_back);
}

// The buffers of MPI 4.1, which a communicator or a session has beside that of the process.
namespace {
struct BufferFunctions {
  int (*attach)(MPI_Comm, void*,
                int) = mpi4::find_in_both<int(MPI_Comm, void*, int)>("MPI_Comm_attach_buffer",
                                                                     "PMPI_Comm_attach_buffer");
  int (*detach)(MPI_Comm, void*, int*) = mpi4::find<int(MPI_Comm, void*, int*)>("MPI_Comm_detach_buffer");
  int (*flush)(MPI_Comm) = mpi4::find<int(MPI_Comm)>("MPI_Comm_flush_buffer");
  bool missing() const { return !attach || !detach || !flush; }
};
}  // namespace

RANK_TEST(buffered, M4_a_buffer_of_a_communicator_may_be_device_memory, 2) {
  const BufferFunctions mpi;
  if (mpi.missing()) return skip("the MPI has no buffers of communicators");
  const int peer = partner();
  MPI_Comm comms[2];
  Memory space[2];
  for (int i = 0; i < 2; ++i) {
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    space[i] = Memory(Place::device, bytes + MPI_BSEND_OVERHEAD);
    MUST(mpi.attach(comms[i], space[i], static_cast<int>(space[i].bytes())));
  }
  for (int i = 0; i < 2 && peer != MPI_PROC_NULL; ++i) {
    Memory in(Place::device, bytes), out(Place::device, bytes);
    out.fill(key_of(rank, i, 5));
    MUST(MPI_Bsend(out, bytes, MPI_BYTE, peer, tag, comms[i]));
    MUST(MPI_Recv(in, bytes, MPI_BYTE, peer, tag, comms[i], MPI_STATUS_IGNORE));
    MUST(mpi.flush(comms[i]));
    EXPECT_HOLDS(in, key_of(peer, i, 5), bytes);
  }
  for (int i : {1, 0}) {
    void* address = nullptr;
    int size_back = 0;
    MUST(mpi.detach(comms[i], &address, &size_back));
    EXPECT(address == space[i].data() && size_back == static_cast<int>(space[i].bytes()),
           "detached %p, %d bytes", address, size_back);
    MUST(MPI_Comm_free(&comms[i]));
  }
}

// A rank detaches and flushes alone, also while windows make the ranks meet before collectives.
RANK_TEST(buffered, M4_a_buffer_of_a_communicator_is_a_matter_of_one_rank, 2) {
  const BufferFunctions mpi;
  if (mpi.missing()) return skip("the MPI has no buffers of communicators");
  Exposed exposed(Place::device, 64);
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  if (rank > peer) return await_signal(peer);
  Memory space(Place::device, bytes);
  void* address = nullptr;
  int size_back = 0;
  MUST(mpi.attach(MPI_COMM_WORLD, space, bytes));
  MUST(mpi.flush(MPI_COMM_WORLD));
  MUST(mpi.detach(MPI_COMM_WORLD, &address, &size_back));
  EXPECT(address == space.data(), "detached %p, not %p", address, static_cast<void*>(space));
  signal_to(peer);
}

RANK_TEST(buffered, M4_a_buffer_of_negative_length_is_refused, 1) {
  int outcomes[2];
  for (int kind = 0; kind < 2; ++kind) {
    Memory space(host_and_device[kind], bytes);
    outcomes[kind] = error_class(CALL(MPI_Buffer_attach(space, -1)));
  }
  EXPECT(outcomes[0] == outcomes[1] && outcomes[0] != MPI_SUCCESS,
         "error class %d for host, %d for device memory", outcomes[0], outcomes[1]);
}

#if MPI_VERSION >= 4
RANK_TEST(buffered, M4_a_buffer_of_a_session_may_be_device_memory, 1) {
  const auto attach = mpi4::find_in_both<int(MPI_Session, void*, int)>("MPI_Session_attach_buffer",
                                                                       "PMPI_Session_attach_buffer");
  const auto detach = mpi4::find<int(MPI_Session, void*, int*)>("MPI_Session_detach_buffer");
  if (!attach || !detach) return skip("the MPI has no buffers of sessions");
  MPI_Session session;
  MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  Memory space(Place::device, bytes);
  MUST(attach(session, space, bytes));
  void* address = nullptr;
  int size_back = 0;
  MUST(detach(session, &address, &size_back));
  EXPECT(address == space.data() && size_back == bytes, "detached %p, %d bytes", address, size_back);
  MUST(MPI_Session_finalize(&session));
}
#endif
