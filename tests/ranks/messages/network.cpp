// SPDX-License-Identifier: Apache-2.0
//
// Messages that nobody asks for when they come, or ever: they hold up neither their sender, nor later
// messages, nor the end of the job. Meant for device messages between nodes; true of all others as well.

#include <dlfcn.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 61;
constexpr int go = 60;
constexpr size_t sizes[] = {5000, 100000, (1 << 20) + 1, 8 << 20};

int count_of(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

void test_often(MPI_Request* request) {
  for (int i = 0, done = 0; i < 10; ++i) MUST(MPI_Test(request, &done, MPI_STATUS_IGNORE));
}

using Take = void (*)(void*, const char*, size_t);
using ForEach = void (*)(Take, void*);
// What Fairlead keeps (src/mpi/job/leaks.cpp). Null without Fairlead.
ForEach for_each_count() {
  return reinterpret_cast<ForEach>(dlsym(RTLD_DEFAULT, "fairlead_kept"));
}

// How many mappings of other ranks' memory this rank has.
size_t mappings() {
  constexpr size_t none = SIZE_MAX;
  size_t found = none;
  for_each_count()(
      [](void* to, const char* what, size_t count) {
        if (std::strcmp(what, "mappings") == 0) *static_cast<size_t*>(to) = count;
      },
      &found);
  EXPECT(found != none, "mappings are not counted");
  return found;
}

}  // namespace

RANK_TEST(network, M3_a_message_swallowed_by_a_short_receive_holds_up_nothing, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    if (rank < peer) {
      Memory swallowed(Place::device, bytes), wanted(Place::device, bytes);
      swallowed.fill(key_of(1, bytes));
      wanted.fill(key_of(2, bytes));
      MPI_Request requests[2];
      MUST(MPI_Isend(swallowed, count_of(swallowed), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
      MUST(MPI_Isend(wanted, count_of(wanted), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
      MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    } else {
      // A descriptor does not fit into this: nobody learns which message it was.
      Memory small(Place::host, bytes), wanted(Place::device, bytes);
      EXPECT_ERROR(MPI_Recv(small, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                   MPI_ERR_TRUNCATE);
      if (MUST(MPI_Recv(wanted, count_of(wanted), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)))
        EXPECT_HOLDS(wanted, key_of(2, bytes), bytes);
    }
  }
}

RANK_TEST(network, M3_a_truncated_message_is_taken_from_its_sender, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    for (Place to : host_and_device) {
      if (rank < peer) {
        Memory buffer(Place::device, bytes);
        buffer.fill(key_of(3, bytes));
        MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
        MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      } else {
        Memory buffer(to, bytes);
        EXPECT_ERROR(
            MPI_Recv(buffer, count_of(buffer) - 1, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            MPI_ERR_TRUNCATE);
        MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
      }
    }
  }
}

RANK_TEST(network, M5_messages_are_received_in_the_opposite_order, 2) {
  // No receive is posted before the one for the message sent after it has completed.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int messages = 5;
  for (size_t bytes : sizes) {
    std::vector<Memory> buffers;
    for (int i = 0; i < messages; ++i) buffers.emplace_back(Place::device, bytes);
    if (rank < peer) {
      MPI_Request requests[messages];
      for (int i = 0; i < messages; ++i) {
        buffers[i].fill(key_of(i, bytes));
        MUST(MPI_Isend(buffers[i], count_of(buffers[i]), MPI_BYTE, peer, tag + i, MPI_COMM_WORLD,
                       &requests[i]));
      }
      MUST(MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE));
    } else {
      for (int i = messages - 1; i >= 0; --i) {
        if (MUST(MPI_Recv(buffers[i], count_of(buffers[i]), MPI_BYTE, peer, tag + i, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE)))
          EXPECT_HOLDS(buffers[i], key_of(i, bytes), bytes);
      }
    }
  }
}

RANK_TEST(network, M1_a_cancelled_receive_leaves_its_message_to_the_next, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    Memory buffer(Place::device, bytes);
    if (rank < peer) {
      buffer.fill(key_of(4, bytes));
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    } else {
      MPI_Request request;
      MPI_Status status;
      int cancelled = 0;
      MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Cancel(&request));
      MUST(MPI_Wait(&request, &status));
      MUST(MPI_Test_cancelled(&status, &cancelled));
      EXPECT(cancelled, "a receive without a message was not cancelled");
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
      if (!MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status))) continue;
      EXPECT_STATUS(status, peer, tag, bytes);
      EXPECT_HOLDS(buffer, key_of(4, bytes), bytes);
    }
  }
}

RANK_TEST(network, M4_a_probe_does_not_complete_a_synchronous_send, 2) {
  const int peer = partner();
  SharedFlags flags;
  if (peer == MPI_PROC_NULL) return;
  int received = rank / 2;
  for (size_t bytes : sizes) {
    Memory buffer(Place::device, bytes);
    if (rank < peer) {
      buffer.fill(key_of(5, bytes));
      MPI_Request request;
      MUST(MPI_Issend(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      for (int done = 0; !done && MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));)
        EXPECT(!done || flags.raised(received), "a synchronous send of %zu bytes completed early", bytes);
    } else {
      MPI_Status status;
      MUST(MPI_Probe(peer, tag, MPI_COMM_WORLD, &status));
      EXPECT_STATUS(status, peer, tag, bytes);
      int found;
      for (int i = 0; i < 1000; ++i) MUST(MPI_Iprobe(peer, tag, MPI_COMM_WORLD, &found, &status));
      flags.raise(received);
      if (MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status))) {
        EXPECT_STATUS(status, peer, tag, bytes);
        EXPECT_HOLDS(buffer, key_of(5, bytes), bytes);
      }
    }
    received += (size + 1) / 2;
  }
}

RANK_TEST(network, M5_a_synchronous_send_completes_while_its_receiver_is_in_a_collective, 2) {
  // Irecv; collective against Ssend; collective. An earlier probe of another message changes nothing.
  const int peer = partner();
  for (size_t bytes : sizes) {
    for (bool probes : {false, true}) {
      Memory buffer(Place::device, bytes), other(Place::device, bytes);
      MPI_Request request = MPI_REQUEST_NULL;
      const bool sends = peer != MPI_PROC_NULL && rank < peer;
      if (sends) {
        MPI_Request first = MPI_REQUEST_NULL;
        other.fill(key_of(7, bytes));
        buffer.fill(key_of(6, bytes));
        if (probes) MUST(MPI_Issend(other, count_of(other), MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, &first));
        MUST(MPI_Ssend(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        MUST(MPI_Wait(&first, MPI_STATUS_IGNORE));
      } else if (peer != MPI_PROC_NULL) {
        MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
        if (probes) MUST(MPI_Probe(peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        if (probes && MUST(MPI_Recv(other, count_of(other), MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD,
                                    MPI_STATUS_IGNORE)))
          EXPECT_HOLDS(other, key_of(7, bytes), bytes);
        if (MUST(MPI_Wait(&request, MPI_STATUS_IGNORE))) EXPECT_HOLDS(buffer, key_of(6, bytes), bytes);
      } else {
        MUST(MPI_Barrier(MPI_COMM_WORLD));
      }
    }
  }
}

RANK_TEST(network, M11_a_message_replaces_one_of_its_size, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    Memory buffer(Place::device, bytes);
    for (int i = 0; i < 3; ++i) {
      MPI_Status status;
      buffer.fill(key_of(8, rank, i));
      if (!MUST(MPI_Sendrecv_replace(buffer, count_of(buffer), MPI_BYTE, peer, tag, peer, tag, MPI_COMM_WORLD,
                                     &status)))
        continue;
      EXPECT_STATUS(status, peer, tag, bytes);
      EXPECT_HOLDS(buffer, key_of(8, peer, i), bytes);
    }
  }
}

RANK_TEST(network, M12_what_its_owner_has_freed_is_not_kept_mapped, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  if (!for_each_count()) return skip("without Fairlead nothing is counted");
  constexpr size_t bytes = 70000, few = 4;
  const size_t before = mappings();
  std::vector<Memory> live;
  auto exchange = [&](const Memory& buffer, int round) {
    if (rank > peer) {
      if (MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)))
        EXPECT_HOLDS(buffer, key_of(11, round), bytes);
    } else {
      MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    }
  };
  for (int round = 0; round < 40; ++round) {
    live.emplace_back(Place::device, bytes);
    if (rank < peer) live.back().fill(key_of(11, round));
    exchange(live.back(), round);
  }
  live.clear();
  // A mapping is closed when its device is idle, which the receiver looks at now and then.
  Memory buffer(Place::device, bytes);
  if (rank < peer) buffer.fill(key_of(11, 0));
  for (int kept = 1, round = 0; kept && round < 100000; ++round) {
    if (round % 1000 == 0) rearm_watchdog();
    exchange(buffer, 0);
    kept = mappings() > before + few;
    if (rank > peer)
      MUST(MPI_Send(&kept, 1, MPI_INT, peer, go, MPI_COMM_WORLD));
    else
      MUST(MPI_Recv(&kept, 1, MPI_INT, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  EXPECT(rank < peer || mappings() <= before + few, "%zu mappings", mappings() - before);
}

RANK_TEST(network, M5_M6_a_rank_leaves_when_the_receiver_has_seen_the_message, 2) {
  const int peer = partner();
  SharedFlags flags;
  int seen = rank / 2;
  for (size_t bytes : sizes) {
    for (bool sender_leaves : {false, true}) {
      Memory buffer(Place::device, bytes);
      MPI_Request request = MPI_REQUEST_NULL;
      const bool sends = rank < peer && peer != MPI_PROC_NULL;
      if (sends) {
        buffer.fill(key_of(12, bytes, sender_leaves));
        MUST(MPI_Isend(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
        MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
        flags.await(seen);
      } else if (peer != MPI_PROC_NULL) {
        MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
        MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0, done = 0; i < 10; ++i) MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        flags.raise(seen);
      }
      const bool leaves = sends == sender_leaves;
      if (leaves) MUST(MPI_Barrier(MPI_COMM_WORLD));
      const bool done = MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      if (sends) buffer.clear();
      if (!leaves) MUST(MPI_Barrier(MPI_COMM_WORLD));
      if (done && !sends && peer != MPI_PROC_NULL)
        EXPECT_HOLDS(buffer, key_of(12, bytes, sender_leaves), bytes);
      // The sender awaits the next flag without a call, but MPI may still have to send of this message.
      MUST(MPI_Barrier(MPI_COMM_WORLD));
      seen += (size + 1) / 2;
    }
  }
}

RANK_TEST(network, M6_a_rank_leaves_while_the_receiver_of_its_message_computes, 2) {
  const int peer = partner();
  SharedFlags flags;
  if (peer == MPI_PROC_NULL) return;
  int seen = rank / 2;
  for (size_t bytes : {sizes[0], sizes[3]}) {
    const int left = seen + (size + 1) / 2;
    Memory buffer(Place::device, bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank < peer) {
      buffer.fill(key_of(13, bytes));
      MUST(MPI_Isend(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
      flags.await(seen);
      test_often(&request);
      MUST(MPI_Barrier(MPI_COMM_SELF));
      flags.raise(left);
    } else {
      MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      test_often(&request);
      flags.raise(seen);
      flags.await(left);
    }
    if (MUST(MPI_Wait(&request, MPI_STATUS_IGNORE)) && rank > peer)
      EXPECT_HOLDS(buffer, key_of(13, bytes), bytes);
    // As above: the sender stays in MPI until the message has come.
    MUST(MPI_Sendrecv(nullptr, 0, MPI_BYTE, peer, go, nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    seen = left + (size + 1) / 2;
  }
}

// Its sender has let the receiver copy the message, and learns in the collective only that it needs chunks.
RANK_TEST(network, M6_a_rank_joins_a_collective_that_the_receiver_of_its_message_joins_later, 2) {
  const int peer = partner();
  SharedFlags flags;
  int seen = rank / 2;
  const bool sends = peer != MPI_PROC_NULL && rank < peer;
  // The receiver permits pipelined messages.
  Memory first(Place::device, sizes[0]);
  for (int i = 0; i < 2; ++i) {
    if (sends)
      MUST(MPI_Send(first, count_of(first), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    else
      MUST(MPI_Recv(first, count_of(first), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
  for (size_t bytes : {sizes[0], sizes[3]}) {
    const int leaves = seen + (size + 1) / 2;
    Memory buffer(Place::device, bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (sends) {
      buffer.fill(key_of(14, bytes));
      MUST(MPI_Isend(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
      flags.await(seen);
      test_often(&request);
      flags.raise(leaves);
    } else if (peer != MPI_PROC_NULL) {
      MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      test_often(&request);
      flags.raise(seen);
      flags.await(leaves);
      // The program computes. The sender does not wait for so long.
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      if (MUST(MPI_Wait(&request, MPI_STATUS_IGNORE))) EXPECT_HOLDS(buffer, key_of(14, bytes), bytes);
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    seen = leaves + (size + 1) / 2;
  }
}
