// SPDX-License-Identifier: Apache-2.0
//
// Operations on GPU streams, continued: what stands between them and other work. Graphs beside single
// operations, peers that send at the same time, communicators that are made and freed while messages are in
// progress, arguments that are not significant.

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "streams/enqueue.h"

using namespace ranks;

namespace {

// Above what is staged through host memory, so that messages can start before their streams come to them.
constexpr size_t bytes = 40000;

// A copy to the host behind a receive may hold up others on the GPU. One of pageable memory waits in the
// driver, too, with locks that other copies of such memory and calls that make memory need; the first
// messages of an allocation are staged through such memory. MPICH's own test of enqueue does this, too.
void copy_to_the_host_behind_messages(Place copy_to, int streams, int peer = partner(),
                                      std::vector<Place> places = {Place::device, Place::host}) {
  std::vector<std::unique_ptr<Stream>> all(static_cast<size_t>(streams));
  for (auto& stream : all) stream = std::make_unique<Stream>();
  if (peer == MPI_PROC_NULL) return;
  struct Buffers {
    Memory sent, received, also_received, copied;
  };
  for (const Place from : places)
    for (const Place to : places)
      for (const size_t length : {size_t{64}, bytes, size_t{2500000}}) {
        std::vector<Buffers> buffers;
        for (int i = 0; i < streams; ++i) {
          buffers.push_back({{from, length}, {to, length}, {Place::device, length}, {copy_to, length}});
          buffers.back().sent.fill(key_of(rank, length, i));
        }
        for (int i = 0; i < streams; ++i) {
          auto& [sent, received, also_received, copied] = buffers[i];
          MPI_Comm comm = all[i]->comm();
          MPI_Request requests[3];
          MUST(MPIX_Irecv_enqueue(received, count(received), MPI_BYTE, peer, tag, comm, &requests[0]));
          MUST(MPIX_Irecv_enqueue(also_received, count(also_received), MPI_BYTE, peer, tag, comm,
                                  &requests[1]));
          MUST(MPIX_Isend_enqueue(sent, count(sent), MPI_BYTE, peer, tag, comm, &requests[2]));
          MUST(MPIX_Send_enqueue(sent, count(sent), MPI_BYTE, peer, tag, comm));
          MUST(MPIX_Waitall_enqueue(3, requests, MPI_STATUSES_IGNORE));
          all[i]->copy(copied, also_received);
        }
        for (int i = 0; i < streams; ++i) {
          all[i]->synchronize();
          EXPECT_HOLDS(buffers[i].received, key_of(peer, length, i), length);
          EXPECT_HOLDS(buffers[i].copied, key_of(peer, length, i), length);
        }
      }
}

// So that no message is one of the first from an allocation.
void exchange_some(Stream& stream, const Memory& sent, const Memory& received, int peer) {
  for (int i = 0; i < 4; ++i)
    MUST(MPI_Sendrecv(sent, count(sent), MPI_BYTE, peer, tag, received, count(received), MPI_BYTE, peer, tag,
                      stream.comm(), MPI_STATUS_IGNORE));
}

std::vector<unsigned char> bytes_of(const Memory& memory) {
  std::vector<unsigned char> read(memory.bytes());
  memory.read(read.data(), read.size());
  return read;
}

}  // namespace

// More launches than a driver's queue has room for, before any of them runs: the launch waits, and with it,
// in the driver, whoever makes a stream, an event or memory. Progress needs a table of the type's blocks.
RANK_TEST(enqueue, S1_launches_that_wait_for_room_do_not_stop_progress, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr int blocks = 300, launches = 1200;
  int lengths[blocks], places[blocks];
  for (int i = 0; i < blocks; ++i) lengths[i] = 1 + i % 7, places[i] = 16 * i + i % 3;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MUST(MPI_Type_indexed(blocks, lengths, places, MPI_INT, &type));
  MUST(MPI_Type_commit(&type));
  int packed = 0;
  MUST(MPI_Type_size(type, &packed));
  const size_t span = 16 * blocks * sizeof(int);
  Memory sent = pattern(span, key_of(rank)), received(Place::device, static_cast<size_t>(packed));
  const device::Graph graph = stream.capture([&] {
    MUST(MPIX_Sendrecv_enqueue(sent, 1, type, peer, tag, received, packed, MPI_BYTE, peer, tag, stream.comm(),
                               MPI_STATUS_IGNORE));
  });
  stream.hold();
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stream.release();
  });
  for (int i = 0; i < launches; ++i) DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
  releaser.join();
  stream.synchronize();
  std::vector<int> whole(span / sizeof(int)), wanted;
  write_pattern(key_of(peer), reinterpret_cast<char*>(whole.data()), span);
  for (int i = 0; i < blocks; ++i)
    wanted.insert(wanted.end(), &whole[static_cast<size_t>(places[i])],
                  &whole[static_cast<size_t>(places[i] + lengths[i])]);
  const std::vector<unsigned char> got = bytes_of(received);
  EXPECT(std::memcmp(got.data(), wanted.data(), got.size()) == 0, "other bytes");
  DRIVER(Stream::gpu().destroy_graph(graph));
  MUST(MPI_Type_free(&type));
}

// The same behind collectives, whose kernels and places progress may not make now.
RANK_TEST(enqueue, S4_a_copy_to_pageable_memory_waits_for_a_collective, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  for (const int elements : {10, 300000}) {
    const size_t length = elements * sizeof(int);
    const std::vector<int> ones(elements, 1);
    Memory mine(Place::device, length), sums(Place::device, length), copied(Place::host, length);
    mine.write(ones.data(), length);
    MUST(MPIX_Allreduce_enqueue(mine, sums, elements, MPI_INT, MPI_SUM, stream.comm()));
    stream.copy(copied, sums);
    stream.synchronize();
    std::vector<int> found_sums(elements);
    copied.read(found_sums.data(), length);
    for (int i = 0; i < elements; ++i)
      if (found_sums[i] != size) return fail(__FILE__, __LINE__, "element %d is %d", i, found_sums[i]);
    struct Candidate {
      short value;
      int rank;
    };
    std::vector<Candidate> places(10), least(10);
    for (int i = 0; i < 10; ++i) places[i] = {static_cast<short>(i % size == rank ? 0 : rank + 1), rank};
    Memory candidates(Place::device, 10 * sizeof(Candidate)), found(Place::device, 10 * sizeof(Candidate)),
        found_here(Place::host, 10 * sizeof(Candidate));
    candidates.write(places.data(), candidates.bytes());
    MUST(MPIX_Allreduce_enqueue(candidates, found, 10, MPI_SHORT_INT, MPI_MINLOC, stream.comm()));
    stream.copy(found_here, found);
    stream.synchronize();
    found_here.read(least.data(), found_here.bytes());
    for (int i = 0; i < 10; ++i)
      EXPECT(least[i].value == 0 && least[i].rank == i % size, "element %d is (%d, %d)", i, least[i].value,
             least[i].rank);
  }
}

// CUDA otherwise loads a kernel at its first launch, which waits for all streams and lets none go on. This
// program enqueues operations, so the variable was set when it was loaded.
RANK_TEST(enqueue, S4_kernels_are_loaded_before_streams_wait, 1) {
  if (const char* reason = why_not()) return skip(reason);
  const char* set = std::getenv("CUDA_MODULE_LOADING");
  EXPECT(set && std::string(set) == "EAGER", "the variable is '%s'", set ? set : "");
}

RANK_TEST(enqueue, S4_a_copy_to_pageable_memory_waits_for_a_message, 2) {
  if (const char* reason = why_not()) return skip(reason);
  copy_to_the_host_behind_messages(Place::host, 1);
}

RANK_TEST(enqueue, S4_a_copy_to_page_locked_memory_waits_for_a_message, 2) {
  if (const char* reason = why_not()) return skip(reason);
  copy_to_the_host_behind_messages(Place::pinned, 1);
}

RANK_TEST(enqueue, S4_copies_to_the_host_on_several_streams_wait_for_messages, 2) {
  if (const char* reason = why_not()) return skip(reason);
  constexpr int streams = 3;  // as many as may wait on AMD GPUs by default (GPU_MAX_HW_QUEUES)
  copy_to_the_host_behind_messages(Place::host, streams);
  copy_to_the_host_behind_messages(Place::pinned, streams);
}

// Copies between two devices of a rank may wait in the driver, too. The library can make no streams for the
// other device once the copy waits. Alone (enqueue.new_device), this is the first use of that device.
RANK_TEST(enqueue, S4_messages_between_devices_while_a_copy_waits, 2) {
  if (const char* reason = why_not()) return skip(reason);
  for (const int peer : {partner(), rank})
    copy_to_the_host_behind_messages(Place::host, 1, peer, {Place::device, Place::other_device});
}

// The same of collectives in streams, which leave such memory to the CPU, and of longer ones.
RANK_TEST(enqueue, S4_collectives_of_another_device_while_a_copy_waits, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  for (const size_t length : {size_t{64}, bytes, size_t{4000000}}) {
    Memory values(Place::other_device, length), here = pattern(length, key_of(rank)),
                                                copied(Place::host, length);
    if (rank == 0) values.fill(key_of(length));
    MUST(MPIX_Bcast_enqueue(values, count(values), MPI_BYTE, 0, stream.comm()));
    stream.copy(copied, here);
    stream.synchronize();
    EXPECT_HOLDS(values, key_of(length), length);
    EXPECT_HOLDS(copied, key_of(rank), length);
  }
}

// What the library found out about page-locked memory must not outlive it.
RANK_TEST(enqueue, S4_pageable_memory_that_was_page_locked, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t length = size_t{1} << 20;
  Memory sent = pattern(length, key_of(rank)), also_received(Place::device, length),
         copied(Place::host, length);
  void* received = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto exchange = [&](void* to) {
    MUST(MPIX_Sendrecv_enqueue(sent, count(sent), MPI_BYTE, peer, tag, to, static_cast<int>(length), MPI_BYTE,
                               peer, tag, stream.comm(), MPI_STATUS_IGNORE));
  };
  DRIVER(Stream::gpu().register_host(received, length));
  exchange(received);
  stream.synchronize();
  DRIVER(Stream::gpu().unregister_host(received));
  std::memset(received, 0, length);
  exchange(received);
  exchange(also_received);
  stream.copy(copied, also_received);
  stream.synchronize();
  std::vector<char> wanted(length);
  write_pattern(key_of(peer), wanted.data(), length);
  EXPECT(std::memcmp(received, wanted.data(), length) == 0, "other bytes");
  EXPECT_HOLDS(copied, key_of(peer), length);
  munmap(received, length);
}

RANK_TEST(enqueue, S3_a_message_does_not_overtake_those_of_a_graph, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Memory first = pattern(bytes, key_of(1, rank)), second = pattern(bytes, key_of(2, rank)),
         a(Place::device, bytes), b(Place::device, bytes);
  exchange_some(stream, first, a, peer);
  exchange_some(stream, second, b, peer);
  if (rank < peer) {
    device::Graph graph = stream.capture(
        [&] { MUST(MPIX_Send_enqueue(first, count(first), MPI_BYTE, peer, tag, stream.comm())); });
    DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
    MUST(MPIX_Send_enqueue(second, count(second), MPI_BYTE, peer, tag, stream.comm()));
    stream.synchronize();
    DRIVER(Stream::gpu().destroy_graph(graph));
  } else {
    MUST(MPI_Recv(a, count(a), MPI_BYTE, peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    MUST(MPI_Recv(b, count(b), MPI_BYTE, peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    EXPECT_HOLDS(a, key_of(1, peer), bytes);
    EXPECT_HOLDS(b, key_of(2, peer), bytes);
  }
}

// The words of the send must not become those of another one before the stream has passed the wait.
RANK_TEST(enqueue, S5_a_wait_outside_outlasts_the_graph_of_its_operation, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Memory sent = pattern(bytes, key_of(rank)), received(Place::device, bytes);
  if (rank < peer) {
    const auto send = [&] { MUST(MPIX_Send_enqueue(sent, count(sent), MPI_BYTE, peer, tag, stream.comm())); };
    // The operations of a stream's first graphs are kept anyway.
    for (int i = 0; i < 64; ++i) DRIVER(Stream::gpu().destroy_graph(stream.capture(send)));
    MPI_Request request = MPI_REQUEST_NULL;
    device::Graph graph = stream.capture(
        [&] { MUST(MPIX_Isend_enqueue(sent, count(sent), MPI_BYTE, peer, tag, stream.comm(), &request)); });
    DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
    DRIVER(Stream::gpu().destroy_graph(graph));
    stream.hold();
    MUST(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
  } else {
    MUST(MPI_Recv(received, count(received), MPI_BYTE, peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    EXPECT_HOLDS(received, key_of(peer), bytes);
  }
  MUST(MPI_Sendrecv(nullptr, 0, MPI_BYTE, peer, tag, nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
  if (rank > peer) return;
  device::Graph other =
      stream.capture([&] { MUST(MPIX_Send_enqueue(sent, count(sent), MPI_BYTE, peer, tag, stream.comm())); });
  stream.release();
  stream.synchronize();
  DRIVER(Stream::gpu().destroy_graph(other));
}

RANK_TEST(enqueue, S6_freeing_the_communicator_waits_for_graphs_that_were_launched, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  const int peer = partner();
  Memory sent = pattern(bytes, key_of(rank)), received(Place::device, bytes);
  device::Graph graph = nullptr;
  {
    Stream stream;
    if (peer == MPI_PROC_NULL) return;
    graph = stream.capture([&] {
      MUST(MPIX_Sendrecv_enqueue(sent, count(sent), MPI_BYTE, peer, tag, received, count(received), MPI_BYTE,
                                 peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    });
    DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
  }
  EXPECT_HOLDS(received, key_of(peer), bytes);
  DRIVER(Stream::gpu().destroy_graph(graph));
}

// As plain MPI_Send of so few bytes does, the send ends before the receive begins.
RANK_TEST(enqueue, S4_peers_that_send_to_each_other_first, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  for (Place place : {Place::device, Place::host}) {
    Memory sent(place, 64), received(place, 64);
    sent.fill(key_of(rank));
    for (int i = 0; i < 10; ++i) {
      MUST(MPIX_Send_enqueue(sent, 64, MPI_BYTE, peer, tag, stream.comm()));
      MUST(MPIX_Recv_enqueue(received, 64, MPI_BYTE, peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    }
    stream.synchronize();
    EXPECT_HOLDS(received, key_of(peer), 64);
  }
}

// Making a communicator waits for all ranks, one of which waits for this rank's message.
RANK_TEST(enqueue, S4_a_communicator_is_made_while_a_message_is_in_progress, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  constexpr size_t large = 8 << 20;
  Memory sent = pattern(large, key_of(rank)), received(Place::device, large);
  MPI_Request request = MPI_REQUEST_NULL;
  if (peer != MPI_PROC_NULL && rank < peer)
    MUST(MPI_Isend(sent, count(sent), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
  if (peer != MPI_PROC_NULL && rank > peer) {
    usleep(20000);
    MUST(MPI_Recv(received, count(received), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_HOLDS(received, key_of(peer), large);
  }
  Stream stream;
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

RANK_TEST(enqueue, S2_arguments_that_are_not_significant, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  constexpr size_t block = 64;
  const size_t ranks = static_cast<size_t>(size);
  Memory all(Place::device, block * ranks), mine = pattern(block, key_of(rank));
  int* const nowhere = reinterpret_cast<int*>(8);
  DRIVER(Stream::gpu().copy(static_cast<char*>(all.data()) + block * static_cast<size_t>(rank), mine.data(),
                            block, stream.get()));
  MUST(MPIX_Allgather_enqueue(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, block, MPI_BYTE, stream.comm()));
  stream.synchronize();
  auto expect_blocks = [&](auto key_of_block) {
    const std::vector<unsigned char> found = bytes_of(all);
    for (size_t r = 0; r < ranks; ++r)
      EXPECT(
          std::memcmp(found.data() + block * r, bytes_of(pattern(block, key_of_block(r))).data(), block) == 0,
          "block %zu is wrong", r);
  };
  expect_blocks([](size_t r) { return key_of(r); });
  std::vector<int> counts(ranks, block), places(ranks);
  for (size_t i = 0; i < ranks; ++i) places[i] = static_cast<int>(block * i);
  MUST(MPIX_Alltoallv_enqueue(MPI_IN_PLACE, nowhere, nowhere, MPI_DATATYPE_NULL, all, counts.data(),
                              places.data(), MPI_BYTE, stream.comm()));
  stream.synchronize();
  expect_blocks([](size_t) { return key_of(rank); });
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Status status;
  std::memset(&status, 0x55, sizeof status);
  MUST(MPIX_Wait_enqueue(&none, &status));
  EXPECT_EMPTY(status);
  EXPECT_ERROR(MPIX_Start_enqueue(&none, stream.comm()), MPI_ERR_REQUEST);
}

RANK_TEST(enqueue, S6_a_rank_is_late, 2) {
  // For ctest `enqueue.late`: the others say for what they wait.
  const char* seconds = getenv("TEST_LATE_S");
  if (seconds == nullptr) return;
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  Memory sent = pattern(bytes, key_of(rank)), received(Place::device, bytes);
  if (rank == 0) sleep(static_cast<unsigned>(atoi(seconds)));
  if (rank == 0) MUST(MPI_Send(sent, count(sent), MPI_BYTE, 1, tag, stream.comm()));
  if (rank == 1)
    MUST(MPIX_Recv_enqueue(received, count(received), MPI_BYTE, 0, tag, stream.comm(), MPI_STATUS_IGNORE));
  stream.synchronize();
  if (rank == 1) EXPECT_HOLDS(received, key_of(0), bytes);
}

RANK_TEST(enqueue, S6_a_rank_is_killed, 2) {
  // For ctest `enqueue.killed`: the job ends, by an MPI error or by the launcher.
  const char* killed = getenv("TEST_KILL_RANK");
  if (killed == nullptr) return;
  if (const char* reason = why_not()) return skip(reason);
  const int victim = atoi(killed);
  Stream stream;
  Memory received(Place::device, bytes);
  if (rank != victim)
    MUST(MPIX_Recv_enqueue(received, count(received), MPI_BYTE, victim, tag, stream.comm(),
                           MPI_STATUS_IGNORE));
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == victim) {
    printf("rank %d is killed\n", rank);
    fflush(stdout);
    raise(SIGKILL);
  }
  at(__FILE__, __LINE__, "a stream that waits for a rank that is gone");
  stream.synchronize();
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// A transfer between nodes that waits for its stream leaves the turn to others
// (docs/design/between-nodes.md): the exchanges would otherwise wait for FAIRLEAD_EAGER_TIMEOUT_US each.
RANK_TEST(enqueue, S4_more_messages_wait_for_a_stream_than_run_at_a_time, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t large = 2 << 20;
  constexpr int messages = 6;
  Memory sent = pattern(large, key_of(1, rank)), plain = pattern(large, key_of(2, rank)),
         b(Place::device, large);
  std::vector<Memory> received;
  MPI_Request requests[2 * messages];
  stream.hold();
  for (int i = 0; i < messages; ++i) {
    received.emplace_back(Place::device, large);
    MUST(MPIX_Irecv_enqueue(received.back(), count(b), MPI_BYTE, peer, tag, stream.comm(), &requests[2 * i]));
    MUST(MPIX_Isend_enqueue(sent, count(sent), MPI_BYTE, peer, tag, stream.comm(), &requests[2 * i + 1]));
  }
  MUST(MPI_Sendrecv(plain, count(plain), MPI_BYTE, peer, tag, b, count(b), MPI_BYTE, peer, tag,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_HOLDS(b, key_of(2, peer), large);
  MUST(MPIX_Waitall_enqueue(2 * messages, requests, MPI_STATUSES_IGNORE));
  stream.release();
  stream.synchronize();
  for (const Memory& one : received) EXPECT_HOLDS(one, key_of(1, peer), large);
}
