// SPDX-License-Identifier: Apache-2.0
//
// Ranks that use several GPUs each: messages from and into every device in turn arrive, whichever devices
// reach each other (ctest `devices.*`), and a sender that leaves need not know which device will receive.
// With TEST_THREADS=1 each case is tried once more on ranks with a stream communicator.

#include <fairlead/device.h>

#include <algorithm>
#include <random>

#include "streams/enqueue.h"

using namespace ranks;

namespace {

constexpr size_t sizes[] = {8, 5000, 70000, (3 << 20) + 5};

int devices() {
  return host_oracle ? 1 : fairlead_device_count();
}

void use(int device) {
  if (!host_oracle && fairlead_device_set(device) != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot use device %d: %s", device, fairlead_device_error_text());
}

Memory memory_of(int device, size_t bytes) {
  use(device);
  Memory memory(Place::device, bytes);
  use(0);
  return memory;
}

int count_of(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

void send(Memory& out, int peer, uint64_t key) {
  out.fill(key);
  MUST(MPI_Send(out, count_of(out), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
}

void receive(Memory& in, int peer, uint64_t key) {
  MPI_Status status;
  if (!MUST(MPI_Recv(in, count_of(in), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status))) return;
  EXPECT_STATUS(status, peer, tag, in.bytes());
  EXPECT_HOLDS(in, key, in.bytes());
  in.clear();
}

void exchange_between_every_pair() {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    std::vector<Memory> mine;
    for (int device = 0; device < devices(); ++device) mine.push_back(memory_of(device, bytes));
    for (int round = 0; round < 4; ++round) {
      for (int from = 0; from < devices(); ++from) {
        for (int to = 0; to < devices(); ++to) {
          const uint64_t key = key_of(bytes, round, from * 64 + to);
          if ((rank < peer) == (round % 2 == 0))
            send(mine[from], peer, key);
          else
            receive(mine[to], peer, key);
        }
      }
    }
  }
}

void exchange_with_host_memory() {
  // Which device fetches into host memory depends on the current one.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    Memory host(Place::host, bytes);
    for (int device = 0; device < devices(); ++device) {
      Memory memory = memory_of(device, bytes);
      for (int current = 0; current < devices(); ++current) {
        use(current);
        if (rank < peer) {
          send(memory, peer, key_of(bytes, device, current));
          send(host, peer, key_of(bytes, device, current + 64));
        } else {
          receive(host, peer, key_of(bytes, device, current));
          receive(memory, peer, key_of(bytes, device, current + 64));
        }
      }
      use(0);
    }
  }
}

void exchange_many_at_once() {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int messages = 96, rounds = 4;
  for (int round = 0; round < rounds; ++round) {
    // The same plan on both sides, of which each side sees its own devices.
    std::mt19937 plan(static_cast<unsigned>(options.seed) + round);
    std::vector<Memory> out, in;
    std::vector<MPI_Request> requests(2 * messages);
    std::vector<int> order(messages);
    for (int i = 0; i < messages; ++i) {
      const size_t bytes = 1 + plan() % (i % 8 == 0 ? 1000000 : 20000);
      out.push_back(memory_of(static_cast<int>(plan() % devices()), bytes));
      in.push_back(memory_of(static_cast<int>(plan() % devices()), bytes));
      out[i].fill(key_of(rank, round, i));
      order[i] = i;
    }
    for (int i = 0; i < messages; ++i)
      MUST(MPI_Isend(out[i], count_of(out[i]), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]));
    std::shuffle(order.begin(), order.end(), plan);
    for (int i : order)
      MUST(MPI_Irecv(in[i], count_of(in[i]), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[messages + i]));
    if (!MUST(MPI_Waitall(2 * messages, requests.data(), MPI_STATUSES_IGNORE))) continue;
    for (int i = 0; i < messages; ++i) EXPECT_HOLDS(in[i], key_of(peer, round, i), in[i].bytes());
  }
}

void leave_before_the_receiving_device_is_known() {
  // The receiver has fetched from the sender's memory with one device; then the sender sits in a barrier
  // while each of the others receives.
  const int peer = partner();
  constexpr size_t bytes = 300000;  // beyond the eager limit
  for (int known = 0; known < devices(); ++known) {
    std::vector<Memory> mine;
    std::vector<MPI_Request> requests;
    for (int device = 0; device < devices() && peer != MPI_PROC_NULL; ++device)
      mine.push_back(memory_of(device, bytes));
    for (int device = 0; device < devices() && peer != MPI_PROC_NULL; ++device) {
      if (rank < peer)
        send(mine[device], peer, key_of(known, device));
      else
        receive(mine[known], peer, key_of(known, device));
    }
    for (int from = 0; from < devices() && peer != MPI_PROC_NULL; ++from) {
      for (int to = 0; to < devices(); ++to) {
        if (rank < peer) {
          requests.push_back(MPI_REQUEST_NULL);
          MUST(MPI_Isend(mine[from], count_of(mine[from]), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                         &requests.back()));
        } else {
          receive(mine[to], peer, key_of(known, from));
        }
      }
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  }
}

}  // namespace

RANK_TEST(devices, M9_every_pair_of_devices, 2) {
  exchange_between_every_pair();
}

RANK_TEST(devices, M9_host_memory_and_every_device, 2) {
  exchange_with_host_memory();
}

RANK_TEST(devices, M9_many_messages_between_all_devices_at_once, 2) {
  exchange_many_at_once();
}

RANK_TEST(devices, M6_a_sender_leaves_before_it_knows_the_receiving_device, 2) {
  leave_before_the_receiving_device_is_known();
}

// A rank that has had a stream communicator makes no copy between two of its devices, and loses no message.
RANK_TEST(devices, S4_ranks_whose_streams_may_wait, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const Stream stream;
  exchange_between_every_pair();
  exchange_with_host_memory();
  exchange_many_at_once();
  leave_before_the_receiving_device_is_known();
}
