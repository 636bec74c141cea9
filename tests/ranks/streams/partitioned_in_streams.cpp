// SPDX-License-Identifier: Apache-2.0
//
// Partitioned requests on GPU streams: MPIX_Start_enqueue, MPIX_Pready_enqueue, MPIX_Parrived_enqueue and
// MPIX_Wait_enqueue. Rounds run in the streams alone as soon as both ranks know each other's memory, and what
// arrives is the same before and after, whoever starts and marks at either end.

#include <sched.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "harness/mpi4.h"
#include "streams/enqueue.h"

using namespace ranks;

namespace {

constexpr int partitions = 8;
constexpr size_t sizes[] = {1, 96, 4096, 30001};  // of one partition

const char* why_not_partitioned() {
  if (const char* reason = why_not()) return reason;
  return mpi4::lacks_partitioned() ? "no partitioned messages" : nullptr;
}

// Both ends of a message between each pair of ranks, in both directions.
struct Ends {
  Ends(int peer, size_t bytes, MPI_Comm comm = MPI_COMM_WORLD)
      : out(Place::device, partitions * bytes), in(Place::device, partitions * bytes) {
    const auto count = static_cast<MPI_Count>(bytes);
    MUST(mpi4::Psend_init(out, partitions, count, MPI_BYTE, peer, tag, comm, MPI_INFO_NULL, &send));
    MUST(mpi4::Precv_init(in, partitions, count, MPI_BYTE, peer, tag, comm, MPI_INFO_NULL, &receive));
  }
  ~Ends() {
    MUST(MPI_Request_free(&send));
    MUST(MPI_Request_free(&receive));
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  Memory out, in;
  MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
};

// Marks all partitions, in ranges or one by one.
void mark_all(Ends& ends, const Stream& stream, unsigned seed) {
  const int middle = static_cast<int>(seed % partitions);
  if (middle > 0)
    MUST(MPIX_Pready_range_enqueue(partitions - middle, partitions - 1, ends.send, stream.comm()));
  std::vector<int> rest(static_cast<size_t>(partitions - middle));
  std::iota(rest.begin(), rest.end(), 0);
  std::shuffle(rest.begin(), rest.end(), std::mt19937(seed));
  for (int partition : rest) MUST(MPIX_Pready_enqueue(partition, ends.send, stream.comm()));
}

// The bytes of the peer in this round are copied out of `in` before the next one begins.
struct Rounds {
  Rounds(int rounds, size_t bytes, int peer) : peer(peer) {
    for (int i = 0; i < rounds; ++i) {
      produced.push_back(pattern(bytes, key(i, rank)));
      results.emplace_back(Place::device, bytes);
    }
  }
  static uint64_t key(int round, int sender) { return key_of(round, sender); }
  void enqueue(Ends& ends, Stream& stream, size_t round) {
    stream.copy(ends.out, produced[round]);
    MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
    MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
    mark_all(ends, stream, static_cast<unsigned>(round));
    if (round % 3 == 0)
      MUST(MPIX_Parrived_enqueue(ends.receive, static_cast<int>(round) % partitions, stream.comm()));
    MPI_Request requests[] = {ends.send, ends.receive};
    if (round % 2)
      MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
    else
      for (MPI_Request& request : requests) MUST(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    EXPECT(requests[0] == ends.send && requests[1] == ends.receive, "a wait changed a persistent request");
    stream.copy(results[round], ends.in);
  }
  void check() const {
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_HOLDS(results[i], key(static_cast<int>(i), peer), results[i].bytes());
  }
  int peer;
  std::vector<Memory> produced, results;
};

}  // namespace

RANK_TEST(partitioned, S2_streams_run_rounds_alone, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    Ends ends(peer, bytes);
    Rounds rounds(24, partitions * bytes, peer);
    for (size_t i = 0; i < 24; ++i) {
      rounds.enqueue(ends, stream, i);
      if (i % 5 == 0) stream.synchronize();
    }
    stream.synchronize();
    rounds.check();
  }
}

// Nothing may begin before all is enqueued; and one rank is late in some rounds.
RANK_TEST(partitioned, S1_rounds_are_enqueued_behind_held_streams, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 5000;
  Ends ends(peer, bytes);
  Rounds rounds(20, partitions * bytes, peer);
  for (size_t i = 0; i < 20; ++i) {
    if (i % 4 == 0) stream.hold();
    rounds.enqueue(ends, stream, i);
    if (i % 4 != 3) continue;
    if (rank > peer && i > 10) usleep(20000);
    stream.release();
    stream.synchronize();
  }
  rounds.check();
}

// Each end is started by a stream, or by the host, as its rank likes.
RANK_TEST(partitioned, the_host_and_streams_start_in_turn, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  std::mt19937 random(static_cast<unsigned>(rank) + 7);
  for (size_t bytes : {size_t{100}, size_t{20000}}) {
    Ends ends(peer, bytes);
    for (int round = 0; round < 40; ++round) {
      // The first rounds are those in which the ranks get to know each other's memory.
      const bool receive_by_host = round > 4 && random() % 2, send_by_host = round > 4 && random() % 2;
      MPI_Status status;
      std::memset(&status, 0x55, sizeof status);
      if (receive_by_host)
        MUST(MPI_Start(&ends.receive));
      else
        MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
      ends.out.fill(key_of(round, rank));
      if (send_by_host) {
        MUST(MPI_Start(&ends.send));
        MUST(mpi4::Pready_range(1, partitions - 1, ends.send));
        MUST(mpi4::Pready(0, ends.send));
      } else {
        MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
        mark_all(ends, stream, random());
        MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
      }
      if (receive_by_host) {
        for (int flag = 0; round % 3 == 0 && !flag;) MUST(mpi4::Parrived(ends.receive, 3, &flag));
        MUST(MPI_Wait(&ends.receive, &status));
      } else {
        MUST(MPIX_Wait_enqueue(&ends.receive, &status));
        stream.synchronize();
      }
      EXPECT_HOLDS(ends.in, key_of(round, peer), ends.in.bytes());
      int received = -1;
      MUST(MPI_Get_count(&status, MPI_BYTE, &received));
      EXPECT(status.MPI_SOURCE == peer && status.MPI_TAG == tag && received == count(ends.in),
             "status: rank %d, tag %d, %d bytes", status.MPI_SOURCE, status.MPI_TAG, received);
      if (send_by_host) MUST(MPI_Wait(&ends.send, MPI_STATUS_IGNORE));
      stream.synchronize();
    }
  }
}

RANK_TEST(partitioned, S5_a_graph_replays_rounds, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 3000;
  Memory produced(Place::device, partitions * bytes), result(Place::device, partitions * bytes);
  for (int warm : {0, 6}) {
    Ends ends(peer, bytes);
    auto enqueue = [&](unsigned seed) {
      stream.copy(ends.out, produced);
      MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
      MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
      mark_all(ends, stream, seed);
      MUST(MPIX_Parrived_enqueue(ends.receive, 2, stream.comm()));
      MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
      MUST(MPIX_Wait_enqueue(&ends.receive, MPI_STATUS_IGNORE));
      stream.copy(result, ends.in);
    };
    auto expect = [&](int round) {
      stream.synchronize();
      EXPECT_HOLDS(result, key_of(round, peer), result.bytes());
    };
    for (int round = 0; round < warm; ++round) {
      produced.fill(key_of(round, rank));
      enqueue(static_cast<unsigned>(round));
      expect(round);
    }
    const device::Graph graph = stream.capture([&] {
      enqueue(3);
      enqueue(5);
    });
    for (int round = warm; round < warm + 12; ++round) {
      produced.fill(key_of(round, rank));
      if (round % 4 == 3) {
        enqueue(1);
      } else {
        DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
      }
      expect(round);
    }
    DRIVER(Stream::gpu().destroy_graph(graph));
  }
}

// The start in one stream, the marks in another one, which progress may look at first.
RANK_TEST(partitioned, S5_a_graph_of_two_streams_replays_rounds, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  int device = 0;
  DRIVER(Stream::gpu().current_device(&device));
  Stream first, second;
  if (peer == MPI_PROC_NULL) return;
  device::Event forth, back;
  DRIVER(Stream::gpu().create_event(device, &forth));
  DRIVER(Stream::gpu().create_event(device, &back));
  for (int variant = 0; variant < 4; ++variant) {
    Stream &stream = variant % 2 ? first : second, &other = variant % 2 ? second : first;
    Ends ends(peer, 600, stream.comm());
    auto enqueue = [&] {
      MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
      MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
      DRIVER(Stream::gpu().record_event(forth, stream.get()));
      DRIVER(Stream::gpu().wait_event(other.get(), forth));
      mark_all(ends, other, 3);
      DRIVER(Stream::gpu().record_event(back, other.get()));
      DRIVER(Stream::gpu().wait_event(stream.get(), back));
      MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
      MUST(MPIX_Wait_enqueue(&ends.receive, MPI_STATUS_IGNORE));
    };
    auto expect = [&](int round) {
      stream.synchronize();
      EXPECT_HOLDS(ends.in, key_of(round, peer), ends.in.bytes());
    };
    const int warm = variant < 2 ? 0 : 6;
    for (int round = 0; round < warm; ++round) {
      ends.out.fill(key_of(round, rank));
      enqueue();
      expect(round);
    }
    const device::Graph graph = stream.capture(enqueue);
    for (int round = warm; round < warm + 30; ++round) {
      ends.out.fill(key_of(round, rank));
      DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
      expect(round);
    }
    DRIVER(Stream::gpu().destroy_graph(graph));
  }
  DRIVER(Stream::gpu().destroy_event(forth));
  DRIVER(Stream::gpu().destroy_event(back));
}

// More of them than requests can be offered at once; buffers of other lengths lie where freed ones lay.
RANK_TEST(partitioned, S5_graphs_come_and_go, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  for (int batch = 0; batch < 80; ++batch) {
    Ends ends(peer, batch % 2 ? 50 : 300, stream.comm());
    auto enqueue = [&] {
      MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
      MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
      mark_all(ends, stream, 3);
      MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
      MUST(MPIX_Wait_enqueue(&ends.receive, MPI_STATUS_IGNORE));
    };
    device::Graph graph;
    for (int round = 0; round < 6; ++round) {
      ends.out.fill(key_of(10 * batch + round, rank));
      if (round == 4) graph = stream.capture(enqueue);
      if (round < 4)
        enqueue();
      else
        DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
      stream.synchronize();
      EXPECT_HOLDS(ends.in, key_of(10 * batch + round, peer), ends.in.bytes());
    }
    // What is handed over by kernels cannot be left to others any more.
    MPIX_Prequest prequest{};
    if (getenv("TEST_IN_STREAMS"))
      EXPECT_ERROR(MPIX_Prequest_create(ends.receive, &prequest), MPI_ERR_REQUEST);
    DRIVER(Stream::gpu().destroy_graph(graph));
  }
}

// More requests than can be offered at once, one after the other and several at a time.
RANK_TEST(partitioned, requests_on_streams_come_and_go, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 700;
  for (int batch = 0; batch < 60; ++batch) {
    Ends first(peer, bytes), second(peer, bytes), third(peer, bytes);
    Ends* all[] = {&first, &second, &third};
    Rounds rounds(3, partitions * bytes, peer);
    for (int i = 0; i < 4; ++i) {
      for (size_t k = 0; k < 3; ++k) rounds.enqueue(*all[(k + static_cast<size_t>(batch)) % 3], stream, k);
      if (batch % 7 == 0) stream.synchronize();
    }
    stream.synchronize();
    rounds.check();
  }
}

// A mark waits for nobody, whatever the program enqueues behind it: the receive may be started later, and
// ranks may have their neighbours in any order.
RANK_TEST(partitioned, S4_a_mark_does_not_hold_the_stream, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Ends first(peer, 100), second(peer, 100);
  for (int round = 0; round < 12; ++round) {
    Ends* const order[] = {rank > peer ? &first : &second, rank > peer ? &second : &first};
    for (Ends* ends : order) {
      if (round % 2 == 0) MUST(MPIX_Start_enqueue(&ends->receive, stream.comm()));
      MUST(MPIX_Start_enqueue(&ends->send, stream.comm()));
      mark_all(*ends, stream, static_cast<unsigned>(round));
      if (round % 2 == 1) MUST(MPIX_Start_enqueue(&ends->receive, stream.comm()));
    }
    MPI_Request all[] = {first.send, second.send, first.receive, second.receive};
    MUST(MPIX_Waitall_enqueue(4, all, MPI_STATUSES_IGNORE));
    stream.synchronize();
  }
}

// Half of the partitions are marked by another thread, in another stream. The receiver is late in some
// rounds, and its buffer stays as it is until then.
RANK_TEST(partitioned, S2_marks_in_two_threads_and_streams, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Ends ends(peer, 1000);
  for (int round = 0; round < 60; ++round) {
    ends.out.fill(key_of(round, rank));
    MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
    std::thread thread(
        [&] { MUST(MPIX_Pready_range_enqueue(0, partitions / 2 - 1, ends.send, stream.comm())); });
    MUST(MPIX_Pready_range_enqueue(partitions / 2, partitions - 1, ends.send, stream.comm()));
    thread.join();
    if (round > 0) EXPECT_HOLDS(ends.in, key_of(round - 1, peer), ends.in.bytes());
    MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
    MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
    MUST(MPIX_Wait_enqueue(&ends.receive, MPI_STATUS_IGNORE));
    stream.synchronize();
    EXPECT_HOLDS(ends.in, key_of(round, peer), ends.in.bytes());
  }
}

// The stream of the marks waits for that of the start. On a stream of another device they are refused if
// kernels hand partitions over, else as any other.
RANK_TEST(partitioned, S2_marks_in_a_stream_that_waits_for_the_start, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  int device = 0, devices = 0;
  DRIVER(Stream::gpu().current_device(&device));
  DRIVER(Stream::gpu().device_count(&devices));
  Stream stream, other;
  DRIVER(Stream::gpu().set_current_device((device + 1) % devices));
  Stream elsewhere;
  DRIVER(Stream::gpu().set_current_device(device));
  if (peer == MPI_PROC_NULL) return;
  Ends ends(peer, 600, stream.comm());
  device::Event event;
  DRIVER(Stream::gpu().create_event(device, &event));
  for (int round = 0; round < 40; ++round) {
    ends.out.fill(key_of(round, rank));
    MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
    MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
    DRIVER(Stream::gpu().record_event(event, stream.get()));
    DRIVER(Stream::gpu().wait_event(other.get(), event));
    if (round > 30 && devices > 1 && getenv("TEST_IN_STREAMS"))
      EXPECT_ERROR(MPIX_Pready_enqueue(0, ends.send, elsewhere.comm()), MPI_ERR_REQUEST);
    mark_all(ends, round % 3 ? other : stream, static_cast<unsigned>(round));
    MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
    MUST(MPIX_Wait_enqueue(&ends.receive, MPI_STATUS_IGNORE));
    stream.synchronize();
    EXPECT_HOLDS(ends.in, key_of(round, peer), ends.in.bytes());
  }
  DRIVER(Stream::gpu().destroy_event(event));
}

// Of another operation on the communicator. The round that was enqueued around it is as any other.
RANK_TEST(partitioned, S3_an_earlier_error_loses_no_round, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Ends ends(peer, 500);
  Memory longer(Place::device, 200), shorter(Place::device, 100);
  for (int round = 0; round < 10; ++round) {
    ends.out.fill(key_of(round, rank));
    MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
    MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
    mark_all(ends, stream, static_cast<unsigned>(round));
    MPI_Request sent;
    MUST(MPI_Isend(longer, 200, MPI_BYTE, rank, tag + 1, stream.comm(), &sent));
    MUST(MPIX_Recv_enqueue(shorter, 100, MPI_BYTE, rank, tag + 1, stream.comm(), MPI_STATUS_IGNORE));
    MUST(MPI_Wait(&sent, MPI_STATUS_IGNORE));
    stream.synchronize();
    MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
    MUST(MPIX_Wait_enqueue(&ends.receive, MPI_STATUS_IGNORE));
    stream.synchronize();
    EXPECT_HOLDS(ends.in, key_of(round, peer), ends.in.bytes());
    EXPECT_ERROR(MPIX_Barrier_enqueue(stream.comm()), MPI_ERR_TRUNCATE);
  }
}

RANK_TEST(partitioned, as_many_partitions_as_streams_handle_and_more, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  for (int count : {1, 128, 129}) {
    Memory out(Place::device, 64 * static_cast<size_t>(count)), in(Place::device, out.bytes());
    MPI_Request requests[2];
    MUST(mpi4::Precv_init(in, count, 64, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    MUST(mpi4::Psend_init(out, count, 64, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < 6; ++round) {
      out.fill(key_of(round, rank));
      for (MPI_Request& request : requests) MUST(MPIX_Start_enqueue(&request, stream.comm()));
      MUST(MPIX_Pready_range_enqueue(0, count - 1, requests[1], stream.comm()));
      MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
      stream.synchronize();
      EXPECT_HOLDS(in, key_of(round, peer), in.bytes());
    }
    for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
  }
}

RANK_TEST(partitioned, wrong_uses_on_streams_are_refused, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  // Whether a stream runs a receive alone is known for ctest `partitioned.in_streams` only.
  const bool alone = getenv("TEST_IN_STREAMS");
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Ends ends(peer, 100, stream.comm());
  Rounds rounds(6, partitions * 100, peer);
  for (size_t i = 0; i < 6; ++i) {
    rounds.enqueue(ends, stream, i);
    stream.synchronize();
  }
  MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
  MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
  EXPECT_ERROR(MPIX_Pready_enqueue(partitions, ends.send, stream.comm()), MPI_ERR_REQUEST);
  EXPECT_ERROR(MPIX_Pready_range_enqueue(3, 2, ends.send, stream.comm()), MPI_ERR_REQUEST);
  EXPECT_ERROR(MPIX_Parrived_enqueue(ends.receive, -1, stream.comm()), MPI_ERR_REQUEST);
  int flag = 0;
  MPIX_Prequest prequest{};
  if (alone) {
    EXPECT_ERROR(mpi4::Parrived(ends.receive, 0, &flag), MPI_ERR_REQUEST);
    EXPECT_ERROR(MPIX_Prequest_create(ends.receive, &prequest), MPI_ERR_REQUEST);
    EXPECT_ERROR(mpi4::Pready(0, ends.send), MPI_ERR_REQUEST);
    EXPECT_ERROR(mpi4::Pready_range(0, 1, ends.send), MPI_ERR_REQUEST);
  }
  MUST(MPIX_Pready_range_enqueue(0, partitions - 1, ends.send, stream.comm()));
  MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
  MUST(MPIX_Wait_enqueue(&ends.receive, MPI_STATUS_IGNORE));
  stream.synchronize();
  // Kernels of the program may leave no room for those that hand partitions over.
  if (alone)
    for (MPI_Request request : {ends.send, ends.receive})
      EXPECT_ERROR(MPIX_Prequest_create(request, &prequest), MPI_ERR_REQUEST);
}

// Longer than kernels hand over.
RANK_TEST(partitioned, S2_streams_run_rounds_of_long_messages, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 700'001;
  Ends ends(peer, bytes);
  Rounds rounds(9, partitions * bytes, peer);
  for (size_t i = 0; i < 9; ++i) {
    rounds.enqueue(ends, stream, i);
    if (i % 3 == 0) stream.synchronize();
  }
  stream.synchronize();
  rounds.check();
}

// One end has offered its buffer for hand-over by kernels, and then gets an MPIX_Prequest; the other one
// joins later.
RANK_TEST(partitioned, words_of_kernels_come_behind_the_first_rounds, 2) {
  if (const char* reason = why_not_partitioned()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Ends ends(peer, 600);
  MPIX_Prequest prequest{};
  for (int round = 0; round < 8; ++round) {
    ends.out.fill(key_of(round, rank));
    if (round == 1) MUST(MPIX_Prequest_create(ends.receive, &prequest));
    MUST(MPIX_Start_enqueue(&ends.receive, stream.comm()));
    if (round < 2) {
      MUST(MPI_Start(&ends.send));
      MUST(mpi4::Pready_range(0, partitions - 1, ends.send));
      MUST(MPI_Wait(&ends.send, MPI_STATUS_IGNORE));
    } else {
      MUST(MPIX_Start_enqueue(&ends.send, stream.comm()));
      mark_all(ends, stream, static_cast<unsigned>(round));
      MUST(MPIX_Wait_enqueue(&ends.send, MPI_STATUS_IGNORE));
    }
    MUST(MPIX_Wait_enqueue(&ends.receive, MPI_STATUS_IGNORE));
    stream.synchronize();
    EXPECT_HOLDS(ends.in, key_of(round, peer), ends.in.bytes());
  }
  MUST(MPIX_Prequest_free(&prequest));
}
