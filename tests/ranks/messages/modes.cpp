// SPDX-License-Identifier: Apache-2.0
//
// M4: the send modes keep their meaning for device buffers. Synchronous sends complete only after the match,
// buffered ones need no receiver and account for the attached buffer, ready ones find their receive.
// Order is proved by messages and flags between the ranks, never by time.

#include <sched.h>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 17;
constexpr size_t sizes[] = {0, 1, 64, 95, 97, 4096, 65536, 1 << 20};
constexpr int patience = 200;  // polls that a request must survive unmatched

void wait_until_visible(int source) {
  int found = 0;
  while (!found && MUST(MPI_Iprobe(source, tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE))) sched_yield();
}

void receive(Place to, size_t bytes, int source, uint64_t key, MPI_Comm comm = MPI_COMM_WORLD) {
  Memory buffer(to, bytes);
  MPI_Status status;
  if (!MUST(MPI_Recv(buffer, static_cast<int>(bytes), MPI_BYTE, source, tag, comm, &status))) return;
  EXPECT_STATUS(status, source, tag, bytes);
  EXPECT_HOLDS(buffer, key, bytes);
}

void signal_to(int peer) {
  MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD));
}
void await_signal(int peer) {
  MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

}  // namespace

RANK_TEST(modes, M4_ssend_returns_only_after_the_match, 2) {
  const int peer = partner();
  SharedFlags flags;
  int matched = rank / 2;  // one flag a pair and step
  for (Place from : host_and_device) {
    for (size_t bytes : sizes) {
      const uint64_t key = key_of(bytes, 1);
      if (peer != MPI_PROC_NULL && rank < peer) {
        Memory buffer(from, bytes);
        buffer.fill(key);
        MUST(MPI_Ssend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
        EXPECT(flags.raised(matched),
               "Ssend of %zu bytes of %s memory returned before its receive was posted", bytes,
               to_string(from));
      } else if (peer != MPI_PROC_NULL) {
        wait_until_visible(peer);
        // A send that does not wait for its match has the time of these calls to return wrongly.
        for (int i = 0; i < patience; ++i) {
          int found;
          MUST(MPI_Iprobe(peer, tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
          sched_yield();
        }
        flags.raise(matched);
        receive(from == Place::host ? Place::device : Place::host, bytes, peer, key);
      }
      matched += (size + 1) / 2;
    }
  }
}

RANK_TEST(modes, M4_issend_tests_false_until_matched, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place to : host_and_device) {
    for (size_t bytes : sizes) {
      const uint64_t key = key_of(bytes, 2);
      if (rank < peer) {
        Memory buffer(Place::device, bytes);
        buffer.fill(key);
        MPI_Request request = MPI_REQUEST_NULL;
        int done = 0;
        MUST(MPI_Issend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
        for (int i = 0; i < patience && !done; ++i) {
          MUST(i % 2 == 0 ? MPI_Test(&request, &done, MPI_STATUS_IGNORE)
                          : MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE));
          sched_yield();
        }
        EXPECT(!done, "Issend of %zu bytes completed before its receive was posted", bytes);
        signal_to(peer);
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      } else {
        await_signal(peer);
        receive(to, bytes, peer, key);
      }
    }
  }
}

RANK_TEST(modes, M4_persistent_synchronous_sends_wait_for_each_match, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 50000;
  constexpr int rounds = 5;
  if (rank < peer) {
    Memory buffer(Place::device, bytes);
    MPI_Request request;
    MUST(MPI_Ssend_init(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
    for (int round = 0; round < rounds; ++round) {
      buffer.fill(key_of(round, 3));
      MUST(MPI_Start(&request));
      int done = 0;
      for (int i = 0; i < patience && !done; ++i) MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      EXPECT(!done, "a synchronous send completed unmatched");
      signal_to(peer);
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    MUST(MPI_Request_free(&request));
  } else {
    for (int round = 0; round < rounds; ++round) {
      await_signal(peer);
      receive(round % 2 == 0 ? Place::device : Place::host, bytes, peer, key_of(round, 3));
    }
  }
}

RANK_TEST(modes, M4_ready_sends_find_their_receive, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place to : host_and_device) {
    for (size_t bytes : sizes) {
      for (bool blocking : {true, false}) {
        const uint64_t key = key_of(bytes, blocking, 4);
        if (rank < peer) {
          Memory buffer(Place::device, bytes);
          buffer.fill(key);
          await_signal(peer);
          MPI_Request request = MPI_REQUEST_NULL;
          if (blocking)
            MUST(MPI_Rsend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
          else
            MUST(MPI_Irsend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
          MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
          Memory buffer(to, bytes);
          MPI_Request request;
          MPI_Status status;
          MUST(MPI_Irecv(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
          signal_to(peer);
          MUST(MPI_Wait(&request, &status));
          EXPECT_STATUS(status, peer, tag, bytes);
          EXPECT_HOLDS(buffer, key, bytes);
        }
      }
    }
  }
}

RANK_TEST(modes, M4_buffered_sends_complete_without_a_receiver, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place from : host_and_device) {
    if (rank < peer) {
      // Exactly the room that the standard asks for all of them.
      size_t room = 0;
      for (size_t bytes : sizes) {
        int packed;
        MUST(MPI_Pack_size(static_cast<int>(bytes), MPI_BYTE, MPI_COMM_WORLD, &packed));
        room += packed + MPI_BSEND_OVERHEAD;
      }
      std::vector<char> attached(room);
      MUST(MPI_Buffer_attach(attached.data(), static_cast<int>(room)));
      for (size_t bytes : sizes) {
        Memory buffer(from, bytes);
        buffer.fill(key_of(bytes, 5));
        MPI_Request request = MPI_REQUEST_NULL;
        if (bytes % 2 == 0) {
          MUST(MPI_Bsend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
        } else {
          MUST(MPI_Ibsend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
          MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        buffer.fill(key_of(bytes, 6));  // the sender's buffer is its own again
      }
      signal_to(peer);
      void* address = nullptr;
      int returned = 0;
      MUST(MPI_Buffer_detach(&address, &returned));  // waits for delivery
      EXPECT(address == attached.data() && returned == static_cast<int>(room),
             "detach returned %p of %d bytes, not %p of %zu", address, returned,
             static_cast<void*>(attached.data()), room);
    } else {
      await_signal(peer);  // all sends have completed, nothing was received
      for (size_t bytes : sizes)
        receive(bytes % 3 == 0 ? Place::host : Place::device, bytes, peer, key_of(bytes, 5));
    }
  }
}

RANK_TEST(modes, M4_buffered_send_beyond_the_attached_buffer_fails, 2) {
  // Either the error that the standard names, or a message that arrives; never a loss. On a communicator of
  // its own, because a failed Bsend leaves a gap in Open MPI's sequence of messages.
  const int peer = partner();
  constexpr size_t bytes = 1 << 20;
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  int sent = 0;
  if (peer != MPI_PROC_NULL && rank < peer) {
    std::vector<char> attached(1000 + MPI_BSEND_OVERHEAD);
    MUST(MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size())));
    Memory buffer(Place::device, bytes);
    buffer.fill(key_of(7));
    const int result = CALL(MPI_Bsend(buffer, bytes, MPI_BYTE, peer, tag, comm));
    EXPECT(result == MPI_SUCCESS || error_class(result) == MPI_ERR_BUFFER, "Bsend returned %s",
           error_name(result).c_str());
    sent = result == MPI_SUCCESS;
    MUST(MPI_Send(&sent, 1, MPI_INT, peer, tag, MPI_COMM_WORLD));
    void* address;
    int returned;
    MUST(MPI_Buffer_detach(&address, &returned));
  } else if (peer != MPI_PROC_NULL) {
    MUST(MPI_Recv(&sent, 1, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (sent) receive(Place::device, bytes, peer, key_of(7), comm);
  }
  MUST(MPI_Comm_free(&comm));
}

RANK_TEST(modes, M4_sender_may_reuse_its_buffer_after_any_completion, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 60;
  Memory out(Place::device, 1 << 20), in(Place::device, 1 << 20);
  for (int round = 0; round < rounds; ++round) {
    const size_t bytes = sizes[round % std::size(sizes)];
    const int count = static_cast<int>(bytes);
    if (rank < peer) {
      out.fill(key_of(round, 8));
      MPI_Request request = MPI_REQUEST_NULL;
      switch (round % 4) {
        case 0:
          MUST(MPI_Send(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
          break;
        case 1:
          MUST(MPI_Ssend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
          break;
        case 2:
          MUST(MPI_Isend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
          break;
        case 3:
          MUST(MPI_Issend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
          break;
      }
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      out.fill(key_of(round, 9));  // at once, while a receiver may be late
    } else {
      in.clear();
      MPI_Status status;
      MUST(MPI_Recv(in, 1 << 20, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
      EXPECT_STATUS(status, peer, tag, bytes);
      EXPECT_HOLDS(in, key_of(round, 8), bytes);
    }
  }
}
