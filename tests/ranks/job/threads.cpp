// SPDX-License-Identifier: Apache-2.0
//
// M9: everything under MPI_THREAD_MULTIPLE: several threads of each rank send and receive device buffers at
// once, with tags and communicators of their own, from threads that never touched a GPU and from threads that
// use different ones. Needs TEST_THREADS=1.

#include <fairlead/device.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int thread_count = 4;
constexpr size_t sizes[] = {8, 4096, 100, 65536, 200000, 0, 96, 70000};

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> running;
  for (int thread = 0; thread < count; ++thread) running.emplace_back(body, thread);
  for (std::thread& thread : running) thread.join();
}

// A communicator for each thread.
class ThreadComms {
 public:
  ThreadComms() {
    for (MPI_Comm& comm : comms_) MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  }
  ~ThreadComms() {
    for (MPI_Comm& comm : comms_) MUST(MPI_Comm_free(&comm));
  }
  MPI_Comm operator[](int thread) const { return comms_[thread]; }

 private:
  MPI_Comm comms_[thread_count];
};

int count_of(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

Place place_of(int i) {
  return i % 3 == 2 ? Place::host : Place::device;
}

// Waits for all, one way or another.
void complete(std::vector<MPI_Request>& requests, int way) {
  const int count = static_cast<int>(requests.size());
  std::vector<int> indices(requests.size());
  int index = 0, done = 0;
  switch (way % 5) {
    case 0:
      MUST(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE));
      break;
    case 1:
      do MUST(MPI_Waitany(count, requests.data(), &index, MPI_STATUS_IGNORE));
      while (index != MPI_UNDEFINED);
      break;
    case 2:
      do MUST(MPI_Waitsome(count, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE));
      while (done != MPI_UNDEFINED);
      break;
    case 3:
      while (!done) MUST(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE));
      break;
    case 4:
      for (MPI_Request& request : requests) MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      break;
  }
}

// Both ranks of a pair exchange several messages at once with nonblocking calls.
void exchange(int peer, int thread, int round, int tag, MPI_Comm comm) {
  constexpr int messages = 6;
  std::vector<Memory> out, in;
  std::vector<MPI_Request> requests(2 * messages);
  const auto bytes_of = [&](int i) { return sizes[(i + round + thread) % std::size(sizes)]; };
  for (int i = 0; i < messages; ++i) {
    out.emplace_back(place_of(i + thread), bytes_of(i));
    out[i].fill(key_of(rank * 1000 + thread, round, i));
    in.emplace_back(place_of(i + round), bytes_of(i));
  }
  for (int i = 0; i < messages; ++i) {
    MUST(MPI_Irecv(in[i], count_of(in[i]), MPI_BYTE, peer, tag, comm, &requests[2 * i]));
    MUST(MPI_Isend(out[i], count_of(out[i]), MPI_BYTE, peer, tag, comm, &requests[2 * i + 1]));
  }
  complete(requests, thread + round);
  for (int i = 0; i < messages; ++i)
    EXPECT_HOLDS(in[i], key_of(peer * 1000 + thread, round, i), in[i].bytes());
}

void ignore_error(MPI_Comm*, int*, ...) {}

}  // namespace

RANK_TEST(threads, M9_blocking_messages_with_a_tag_for_each_thread, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  run_threads(thread_count, [&](int thread) {
    for (int round = 0; round < 60; ++round) {
      const size_t bytes = sizes[(round + thread) % std::size(sizes)];
      const uint64_t key = key_of(thread, round);
      Memory buffer(place_of(round + rank), bytes);
      if ((rank < peer) == (round % 2 == 0)) {
        buffer.fill(key);
        MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, peer, thread, MPI_COMM_WORLD));
      } else {
        MPI_Status status;
        MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, thread, MPI_COMM_WORLD, &status));
        EXPECT_STATUS(status, peer, thread, bytes);
        EXPECT_HOLDS(buffer, key, bytes);
      }
    }
  });
}

RANK_TEST(threads, M9_nonblocking_messages_with_a_tag_for_each_thread, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  run_threads(thread_count, [&](int thread) {
    for (int round = 0; round < 15; ++round) exchange(peer, thread, round, thread, MPI_COMM_WORLD);
  });
}

RANK_TEST(threads, M9_a_communicator_for_each_thread, 2) {
  const int peer = partner();
  const ThreadComms comms;
  if (peer == MPI_PROC_NULL) return;
  run_threads(thread_count, [&](int thread) {
    for (int round = 0; round < 15; ++round) exchange(peer, thread, round, 5, comms[thread]);
  });
}

RANK_TEST(threads, M9_threads_that_share_a_new_communicator, 2) {
  // All ask at once for what is known of its ranks.
  const int peer = partner();
  for (int round = 0; round < 10; ++round) {
    MPI_Comm comm;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (peer != MPI_PROC_NULL) {
      run_threads(thread_count, [&](int thread) {
        Memory out(Place::device, 5000), in(Place::device, 5000);
        out.fill(key_of(rank, thread, round));
        MUST(MPI_Sendrecv(out, 5000, MPI_BYTE, peer, thread, in, 5000, MPI_BYTE, peer, thread, comm,
                          MPI_STATUS_IGNORE));
        EXPECT_HOLDS(in, key_of(peer, thread, round), 5000);
      });
    }
    MUST(MPI_Comm_free(&comm));
  }
}

RANK_TEST(threads, M9_probes_of_several_threads, 2) {
  const int peer = partner();
  const ThreadComms comms;
  if (peer == MPI_PROC_NULL) return;
  run_threads(thread_count, [&](int thread) {
    for (int round = 0; round < 40; ++round) {
      const size_t bytes = sizes[(round + thread) % std::size(sizes)];
      const uint64_t key = key_of(thread, round, 2);
      if ((rank < peer) == (round % 2 == 0)) {
        Memory buffer(place_of(round), bytes);
        buffer.fill(key);
        MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, peer, round, comms[thread]));
        continue;
      }
      MPI_Status status;
      MPI_Message message;
      if (round % 4 < 2)
        MUST(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[thread], &status));
      else
        MUST(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[thread], &message, &status));
      EXPECT_STATUS(status, peer, round, bytes);
      Memory buffer(place_of(round + thread), bytes);
      if (round % 4 < 2)
        MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, peer, round, comms[thread], &status));
      else
        MUST(MPI_Mrecv(buffer, count_of(buffer), MPI_BYTE, &message, &status));
      EXPECT_STATUS(status, peer, round, bytes);
      EXPECT_HOLDS(buffer, key, bytes);
    }
  });
}

RANK_TEST(threads, M9_persistent_requests_of_several_threads, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  run_threads(thread_count, [&](int thread) {
    constexpr int lanes = 4;
    std::vector<Memory> out, in;
    std::vector<MPI_Request> requests(2 * lanes);
    for (int i = 0; i < lanes; ++i) {
      const size_t bytes = sizes[(i + thread) % std::size(sizes)];
      out.emplace_back(place_of(i), bytes);
      in.emplace_back(place_of(i + thread), bytes);
      const int tag = thread * lanes + i;
      MUST(MPI_Send_init(out[i], count_of(out[i]), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[i]));
      MUST(MPI_Recv_init(in[i], count_of(in[i]), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[lanes + i]));
    }
    for (int round = 0; round < 15; ++round) {
      for (int i = 0; i < lanes; ++i) out[i].fill(key_of(rank * 100 + thread, round, i));
      MUST(MPI_Startall(2 * lanes, requests.data()));
      MUST(MPI_Waitall(2 * lanes, requests.data(), MPI_STATUSES_IGNORE));
      for (int i = 0; i < lanes; ++i)
        EXPECT_HOLDS(in[i], key_of(peer * 100 + thread, round, i), in[i].bytes());
    }
    for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
  });
}

RANK_TEST(threads, M9_threads_that_never_touched_a_gpu, 2) {
  // All memory is made, filled and checked by the main thread.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int messages = 10;
  std::vector<Memory> out, in;
  for (int i = 0; i < thread_count * messages; ++i) {
    const size_t bytes = sizes[i % std::size(sizes)];
    out.emplace_back(Place::device, bytes);
    out[i].fill(key_of(rank, i, 3));
    in.emplace_back(i % 2 == 0 ? Place::device : Place::other_device, bytes);
  }
  run_threads(thread_count, [&](int thread) {
    for (int i = thread * messages; i < (thread + 1) * messages; ++i) {
      if ((rank < peer) == (i % 2 == 0)) {
        MUST(MPI_Send(out[i], count_of(out[i]), MPI_BYTE, peer, thread, MPI_COMM_WORLD));
        MUST(MPI_Recv(in[i], count_of(in[i]), MPI_BYTE, peer, thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      } else {
        MUST(MPI_Recv(in[i], count_of(in[i]), MPI_BYTE, peer, thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Send(out[i], count_of(out[i]), MPI_BYTE, peer, thread, MPI_COMM_WORLD));
      }
    }
  });
  for (int i = 0; i < thread_count * messages; ++i) EXPECT_HOLDS(in[i], key_of(peer, i, 3), in[i].bytes());
}

RANK_TEST(threads, M9_each_thread_with_a_gpu_of_its_own, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  run_threads(thread_count, [&](int thread) {
    if (!host_oracle) fairlead_device_set((rank + thread) % fairlead_device_count());
    for (int round = 0; round < 15; ++round) exchange(peer, thread, round, thread, MPI_COMM_WORLD);
    if (host_oracle) return;
    int device = -1;
    fairlead_device_get(&device);
    EXPECT(device == (rank + thread) % fairlead_device_count(), "thread %d is on device %d now", thread,
           device);
  });
}

RANK_TEST(threads, M9_device_messages_move_while_another_thread_is_in_collectives, 2) {
  const int peer = partner();
  const ThreadComms comms;
  run_threads(3, [&](int thread) {
    for (int round = 0; round < 20; ++round) {
      if (thread == 0) {
        int sum = 1;
        MUST(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comms[0]));
        EXPECT(sum == size, "the sum of ones is %d", sum);
      } else if (peer != MPI_PROC_NULL) {
        exchange(peer, thread, round, thread, comms[thread]);
      }
    }
  });
}

RANK_TEST(threads, M9_a_receive_starts_while_another_thread_is_in_a_barrier, 2) {
  // The sender comes to the barrier only when its message has been taken.
  const int peer = partner();
  const ThreadComms comms;
  SharedFlags flags;
  constexpr size_t bytes = 1 << 20;  // beyond the eager limit
  for (int round = 0; round < 4; ++round) {
    Memory buffer(Place::device, bytes);
    const uint64_t key = key_of(rank / 2, round, 4);
    const auto barrier = [&] { MUST(MPI_Barrier(comms[0])); };
    if (peer == MPI_PROC_NULL) {
      barrier();
    } else if (rank < peer) {
      std::thread other(barrier);
      usleep(20000);  // time to get there: a thread that is late makes the case easier, not wrong
      MPI_Request request;
      MUST(MPI_Irecv(buffer, bytes, MPI_BYTE, peer, round, MPI_COMM_WORLD, &request));
      flags.raise(rank / 2 * 4 + round);
      other.join();
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT_HOLDS(buffer, key, bytes);
    } else {
      buffer.fill(key);
      flags.await(rank / 2 * 4 + round);
      MUST(MPI_Send(buffer, bytes, MPI_BYTE, peer, round, MPI_COMM_WORLD));
      barrier();
    }
  }
}

RANK_TEST(threads, M9_error_handlers_stay_the_programs, 2) {
  // Receives that fail and receives that do not, on one communicator.
  const int peer = partner();
  MPI_Comm comm;
  MPI_Errhandler mine, found;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_create_errhandler(ignore_error, &mine));
  MUST(MPI_Comm_set_errhandler(comm, mine));
  if (peer != MPI_PROC_NULL) {
    run_threads(thread_count, [&](int thread) {
      Memory buffer(Place::device, 5000);
      for (int i = 0; i < 2000; ++i) {
        const bool too_long = thread == 0 && i % 10 == 0;
        if (rank < peer)
          MUST(MPI_Send(buffer, too_long ? 5000 : 64, MPI_BYTE, peer, thread, comm));
        else if (too_long)
          CALL(MPI_Recv(buffer, 64, MPI_BYTE, peer, thread, comm, MPI_STATUS_IGNORE));
        else
          MUST(MPI_Recv(buffer, 64, MPI_BYTE, peer, thread, comm, MPI_STATUS_IGNORE));
      }
    });
  }
  MUST(MPI_Comm_get_errhandler(comm, &found));
  EXPECT(found == mine, "the communicator has another error handler than the program gave it");
  if (found != MPI_ERRHANDLER_NULL) MUST(MPI_Errhandler_free(&found));
  MUST(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
  EXPECT(found == MPI_ERRORS_RETURN, "MPI_COMM_WORLD has another error handler than the program gave it");
  MUST(MPI_Comm_free(&comm));
  MUST(MPI_Errhandler_free(&mine));
}

RANK_TEST(threads, M9_a_probe_takes_no_message_from_another_threads_receive, 2) {
  // A probe reads messages of a descriptor's length, and all that came before them from that source.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 400, probed = 1, received = 2, next = 3;
  constexpr size_t unclear = 96;
  for (int round = 0; round < rounds; ++round) {
    const size_t other = round % 2 == 0 ? 8 : unclear;
    if (rank < peer) {
      Memory a(Place::host, other), b(Place::host, unclear);
      a.fill(key_of(round, received));
      b.fill(key_of(round, probed));
      MUST(MPI_Send(a, count_of(a), MPI_BYTE, peer, received, MPI_COMM_WORLD));
      MUST(MPI_Send(b, count_of(b), MPI_BYTE, peer, probed, MPI_COMM_WORLD));
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, next, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      continue;
    }
    std::atomic<int> ready = 0;
    run_threads(2, [&](int thread) {
      Memory in(Place::host, thread == 0 ? unclear : other);
      const int tag = thread == 0 ? probed : received;
      ++ready;
      while (ready < 2) std::this_thread::yield();
      MPI_Status status;
      if (thread == 0) {
        MUST(MPI_Probe(peer, tag, MPI_COMM_WORLD, &status));
        EXPECT_STATUS(status, peer, tag, unclear);
      }
      MUST(MPI_Recv(in, count_of(in), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
      EXPECT_STATUS(status, peer, tag, in.bytes());
      EXPECT_HOLDS(in, key_of(round, tag), in.bytes());
    });
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, next, MPI_COMM_WORLD));
  }
}

RANK_TEST(threads, M9_a_probe_keeps_the_order_of_another_threads_receives, 2) {
  // Messages of one tag, some of a descriptor's length, received in order by one thread while another probes
  // the same source for a message that comes last.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 100, messages = 8, last = 1, ordered = 2, next = 3;
  const auto bytes_of = [](int i) { return i % 3 == 1 ? size_t{8} : size_t{96}; };
  for (int round = 0; round < rounds; ++round) {
    if (rank < peer) {
      for (int i = 0; i < messages; ++i) {
        Memory out(Place::host, bytes_of(i));
        out.fill(key_of(round, i, 6));
        MUST(MPI_Send(out, count_of(out), MPI_BYTE, peer, ordered, MPI_COMM_WORLD));
      }
      Memory out(Place::device, 5000);
      out.fill(key_of(round, 7));
      MUST(MPI_Send(out, count_of(out), MPI_BYTE, peer, last, MPI_COMM_WORLD));
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, next, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      continue;
    }
    run_threads(2, [&](int thread) {
      MPI_Status status;
      if (thread == 0) {
        MUST(MPI_Probe(peer, last, MPI_COMM_WORLD, &status));
        EXPECT_STATUS(status, peer, last, 5000);
        Memory in(Place::device, 5000);
        MUST(MPI_Recv(in, count_of(in), MPI_BYTE, peer, last, MPI_COMM_WORLD, &status));
        EXPECT_HOLDS(in, key_of(round, 7), in.bytes());
        return;
      }
      for (int i = 0; i < messages; ++i) {
        Memory in(Place::host, 96);
        MUST(MPI_Recv(in, 96, MPI_BYTE, peer, ordered, MPI_COMM_WORLD, &status));
        EXPECT_STATUS(status, peer, ordered, bytes_of(i));
        EXPECT_HOLDS(in, key_of(round, i, 6), bytes_of(i));
      }
    });
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, next, MPI_COMM_WORLD));
  }
}
