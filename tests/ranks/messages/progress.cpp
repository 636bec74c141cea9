// SPDX-License-Identifier: Apache-2.0
//
// M5, M6, M7: correct MPI programs that hang where a device message needs help from a rank that sits in a
// host MPI call. Passing means ending: the watchdog tells a deadlock.

#include <sched.h>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 19;
constexpr int go = 20;
constexpr size_t eager = 65536;  // FAIRLEAD_EAGER_LIMIT's default
constexpr size_t sizes[] = {8, 64, 4096, 65536, 65537, 1 << 20, 5 << 20};

// Plain MPIs promise less than Fairlead for sends without a receiver.
bool completes_without_receiver(size_t bytes) {
  return bytes <= (host_oracle ? 512 : eager);
}

void expect_arrived(const Memory& memory, uint64_t key) {
  EXPECT_HOLDS(memory, key, memory.bytes());
}

int count_of(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

void host_collective(int which) {
  int value = rank;
  switch (which % 4) {
    case 0:
      MUST(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD));
      break;
    case 1:
      MUST(MPI_Barrier(MPI_COMM_WORLD));
      break;
    case 2:
      MUST(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
      break;
    case 3: {
      MPI_Comm copy_of_world;
      MUST(MPI_Comm_dup(MPI_COMM_WORLD, &copy_of_world));
      MUST(MPI_Comm_free(&copy_of_world));
      break;
    }
  }
}

}  // namespace

RANK_TEST(progress, M5_send_completes_while_its_receiver_is_in_a_collective, 2) {
  // Irecv(device); collective against Send(device); collective.
  const int peer = partner();
  for (size_t bytes : sizes) {
    for (int which = 0; which < 4; ++which) {
      const uint64_t key = key_of(bytes, which, 1);
      const bool sends = peer != MPI_PROC_NULL && rank < peer;
      Memory buffer(Place::device, bytes);
      MPI_Request request = MPI_REQUEST_NULL;
      if (sends) {
        buffer.fill(key);
        MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      } else if (peer != MPI_PROC_NULL) {
        MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      }
      host_collective(which);
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      if (peer != MPI_PROC_NULL) expect_arrived(buffer, key);
    }
  }
}

RANK_TEST(progress, M6_receive_completes_while_its_sender_is_in_a_collective, 2) {
  // Isend(device); collective; Wait against Recv(device); collective.
  const int peer = partner();
  for (size_t bytes : sizes) {
    for (int which = 0; which < 4; ++which) {
      for (Place to : host_and_device) {
        const uint64_t key = key_of(bytes, which, 2);
        const bool sends = peer != MPI_PROC_NULL && rank < peer;
        Memory buffer(sends ? Place::device : to, bytes);
        MPI_Request request = MPI_REQUEST_NULL;
        if (sends) {
          buffer.fill(key);
          MUST(MPI_Isend(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
        } else if (peer != MPI_PROC_NULL) {
          MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
          expect_arrived(buffer, key);
        }
        host_collective(which);
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      }
    }
  }
}

RANK_TEST(progress, M7_blocking_host_receives_drive_device_sends, 2) {
  // Each rank starts a device send to the right and then blocks in a host receive from the left, which is
  // sent only once the left one's own device message has been received: a chain around the ring.
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (size_t bytes : sizes) {
    Memory out(Place::device, bytes), in(Place::device, bytes);
    out.fill(key_of(rank, bytes, 3));
    MPI_Request sending = MPI_REQUEST_NULL;
    MUST(MPI_Isend(out, count_of(out), MPI_BYTE, right, tag, MPI_COMM_WORLD, &sending));
    if (rank == 0) {
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, left, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MUST(MPI_Recv(in, count_of(in), MPI_BYTE, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
      MUST(MPI_Recv(in, count_of(in), MPI_BYTE, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      if (rank > 1) MUST(MPI_Recv(nullptr, 0, MPI_BYTE, left, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, right, go, MPI_COMM_WORLD));
    }
    MUST(MPI_Wait(&sending, MPI_STATUS_IGNORE));
    expect_arrived(in, key_of(left, bytes, 3));
  }
}

RANK_TEST(progress, M7_blocking_host_calls_drive_device_receives, 3) {
  // Rank 1 has a device receive active and blocks in a host call for a message of rank 2, which rank 2 sends
  // only when rank 0's device send has completed.
  for (size_t bytes : sizes) {
    for (bool in_probe : {false, true}) {
      const uint64_t key = key_of(bytes, in_probe, 4);
      if (rank == 0) {
        Memory buffer(Place::device, bytes);
        buffer.fill(key);
        MUST(MPI_Ssend(buffer, count_of(buffer), MPI_BYTE, 1, tag, MPI_COMM_WORLD));
        MUST(MPI_Send(nullptr, 0, MPI_BYTE, 2, go, MPI_COMM_WORLD));
      } else if (rank == 1) {
        Memory buffer(Place::device, bytes);
        MPI_Request request;
        MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request));
        if (in_probe) MUST(MPI_Probe(2, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Recv(nullptr, 0, MPI_BYTE, 2, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        expect_arrived(buffer, key);
      } else if (rank == 2) {
        MUST(MPI_Recv(nullptr, 0, MPI_BYTE, 0, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Send(nullptr, 0, MPI_BYTE, 1, go, MPI_COMM_WORLD));
      }
    }
  }
}

RANK_TEST(progress, M7_waiting_for_a_host_request_drives_device_ones, 2) {
  // Both ranks wait for a host message first that the other sends only after its device receive.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    Memory device(Place::device, bytes);
    MPI_Request moving, host;
    if (rank < peer) {
      device.fill(key_of(bytes, 5));
      MUST(MPI_Isend(device, count_of(device), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &moving));
      MUST(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, &host));
      MUST(MPI_Wait(&host, MPI_STATUS_IGNORE));
      MUST(MPI_Wait(&moving, MPI_STATUS_IGNORE));
    } else {
      MUST(MPI_Recv(device, count_of(device), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      expect_arrived(device, key_of(bytes, 5));
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
    }
  }
}

RANK_TEST(progress, M5_eager_sends_need_no_receiver, 2) {
  // Both send first and receive then. Fairlead promises it for device messages up to FAIRLEAD_EAGER_LIMIT.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    if (!completes_without_receiver(bytes)) continue;
    constexpr int messages = 8;
    std::vector<Memory> out;
    for (int i = 0; i < messages; ++i) {
      out.emplace_back(Place::device, bytes);
      out[i].fill(key_of(rank, bytes, i));
      MUST(MPI_Send(out[i], count_of(out[i]), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      out[i].clear();  // the message must have left the buffer
    }
    for (int i = 0; i < messages; ++i) {
      Memory in(i % 2 == 0 ? Place::device : Place::host, bytes);
      MUST(MPI_Recv(in, count_of(in), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      expect_arrived(in, key_of(peer, bytes, i));
    }
  }
}

RANK_TEST(progress, M5_eager_sends_complete_while_the_receiver_makes_no_mpi_call, 2) {
  const int peer = partner();
  SharedFlags flags;
  int sent = rank / 2;
  for (size_t bytes : sizes) {
    if (!completes_without_receiver(bytes) || peer == MPI_PROC_NULL) continue;
    if (rank < peer) {
      Memory buffer(Place::device, bytes);
      buffer.fill(key_of(bytes, 6));
      MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      flags.raise(sent);
    } else {
      flags.await(sent);
      Memory buffer(Place::device, bytes);
      MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      expect_arrived(buffer, key_of(bytes, 6));
    }
    sent += (size + 1) / 2;
  }
}

RANK_TEST(progress, M5_eager_send_then_host_message_received_first, 2) {
  // The receiver asks for the host message first, and has no device operation active meanwhile.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    if (!completes_without_receiver(bytes)) continue;
    if (rank < peer) {
      Memory buffer(Place::device, bytes);
      buffer.fill(key_of(bytes, 7));
      MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
    } else {
      Memory buffer(Place::device, bytes);
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      expect_arrived(buffer, key_of(bytes, 7));
    }
  }
}

RANK_TEST(progress, M7_sendrecv_exchanges_around_the_ring, 2) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (size_t bytes : sizes) {
    for (Place to : host_and_device) {
      Memory out(rank % 2 == 0 ? Place::device : to, bytes), in(to, bytes);
      out.fill(key_of(rank, bytes, 8));
      MPI_Status status;
      MUST(MPI_Sendrecv(out, count_of(out), MPI_BYTE, right, tag, in, count_of(in), MPI_BYTE, left, tag,
                        MPI_COMM_WORLD, &status));
      EXPECT_STATUS(status, left, tag, bytes);
      expect_arrived(in, key_of(left, bytes, 8));
      MUST(MPI_Sendrecv_replace(in, count_of(in), MPI_BYTE, right, tag, left, tag, MPI_COMM_WORLD, &status));
      EXPECT_STATUS(status, left, tag, bytes);
      expect_arrived(in, key_of((left + size - 1) % size, bytes, 8));
    }
  }
}

RANK_TEST(progress, M6_a_freed_device_send_arrives_while_its_sender_is_in_a_barrier, 2) {
  const int peer = partner();
  for (size_t bytes : sizes) {
    Memory buffer(Place::device, bytes);
    if (peer != MPI_PROC_NULL && rank < peer) {
      buffer.fill(key_of(bytes, 9));
      MPI_Request request;
      MUST(MPI_Isend(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Request_free(&request));
      EXPECT(request == MPI_REQUEST_NULL, "Request_free left the handle");
    } else if (peer != MPI_PROC_NULL) {
      MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      expect_arrived(buffer, key_of(bytes, 9));
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
}

RANK_TEST(progress, M6_a_device_send_before_a_barrier_is_received_after_it, 2) {
  // Of the first message of a job, for which nothing is proven, the bytes must leave the device.
  const int peer = partner();
  for (size_t bytes : sizes) {
    Memory buffer(Place::device, bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    const bool sends = peer != MPI_PROC_NULL && rank < peer;
    if (sends) {
      buffer.fill(key_of(bytes, 13));
      MUST(MPI_Isend(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (peer != MPI_PROC_NULL && !sends) {
      MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      expect_arrived(buffer, key_of(bytes, 13));
    }
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}

RANK_TEST(progress, M7_polling_one_request_of_many_completes_all, 2) {
  // Only one of several receives is tested; the sender's synchronous sends of the others still complete.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int messages = 6;
  constexpr size_t bytes = 300000;
  std::vector<Memory> buffers;
  for (int i = 0; i < messages; ++i) buffers.emplace_back(Place::device, bytes);
  if (rank < peer) {
    for (int i = 0; i < messages; ++i) {
      buffers[i].fill(key_of(i, 10));
      MUST(MPI_Ssend(buffers[i], bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD));
    }
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD));
  } else {
    MPI_Request requests[messages], last;
    for (int i = 0; i < messages; ++i)
      MUST(MPI_Irecv(buffers[i], bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]));
    MUST(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, go, MPI_COMM_WORLD, &last));
    for (int done = 0; !done && MUST(MPI_Test(&last, &done, MPI_STATUS_IGNORE));) sched_yield();
    MUST(MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < messages; ++i) expect_arrived(buffers[i], key_of(i, 10));
  }
}

RANK_TEST(progress, M7_sendrecv_on_host_memory_takes_device_messages, 2) {
  // The sender comes to its receive only when its device message has been taken up, which the host MPI's own
  // Sendrecv could not do: its other half waits for that receive.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    for (bool in_place : {false, true}) {
      const uint64_t key = key_of(bytes, in_place, 11), answer = key_of(bytes, in_place, 12);
      if (rank < peer) {
        Memory out(Place::device, bytes), in(Place::host, bytes);
        out.fill(key);
        MUST(MPI_Send(out, count_of(out), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
        MUST(MPI_Recv(in, count_of(in), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        expect_arrived(in, answer);
      } else {
        Memory out(Place::host, bytes), in(Place::host, bytes);
        out.fill(answer);
        if (in_place) {
          MUST(MPI_Sendrecv_replace(out, count_of(out), MPI_BYTE, peer, tag, peer, tag, MPI_COMM_WORLD,
                                    MPI_STATUS_IGNORE));
        } else {
          MUST(MPI_Sendrecv(out, count_of(out), MPI_BYTE, peer, tag, in, count_of(in), MPI_BYTE, peer, tag,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        expect_arrived(in_place ? out : in, key);
      }
    }
  }
}

RANK_TEST(progress, M6_two_ranks_leave_for_a_barrier_while_each_fetches_from_the_other, 2) {
  // After few tests each has claimed the other's message, after more it copies it: slow copies (ctest
  // `faults.parking`) keep both there.
  const int peer = partner();
  constexpr size_t bytes = 1 << 20;
  Memory known(Place::device, 4096);
  if (peer != MPI_PROC_NULL)  // the pair knows that it can share memory, but not yet this memory
    MUST(
        MPI_Sendrecv_replace(known, 4096, MPI_BYTE, peer, tag, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  for (int round = 0; round < 18; ++round) {
    const int tests = 1 << round % 6 * 2;
    Memory out(Place::device, bytes), in(Place::device, bytes);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    out.fill(key_of(rank, round, 13));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (peer != MPI_PROC_NULL) {
      MUST(MPI_Isend(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
      MUST(MPI_Irecv(in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
    }
    int done = 0;
    for (int i = 0; i < tests; ++i) MUST(MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    if (peer != MPI_PROC_NULL) expect_arrived(in, key_of(peer, round, 13));
  }
}
