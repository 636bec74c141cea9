// SPDX-License-Identifier: Apache-2.0
//
// MPI_Pready and MPI_Parrived by kernels (include/fairlead/partitioned.h): what a kernel marks arrives, once
// a round, while the kernel may still run, and a kernel sees no arrival of another round.

#include <fairlead/device.h>
#define FAIRLEAD_STREAM_KEEP_THREAD_LEVEL
#include <fairlead/stream.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include "device/runtime.h"
#include "harness/harness.h"
#include "harness/mpi4.h"
#include "messages/partitioned_kernels.h"

using namespace ranks;

namespace {

constexpr int tag = 61;
constexpr int partitions = 8;
constexpr size_t sizes[] = {1, 96, 4096, 30001};  // of one partition

// Returns true where a case cannot run.
bool skipped() {
  if (mpi4::lacks_partitioned()) return true;
  if (host_oracle || !threads) skip(host_oracle ? "needs kernels" : "needs TEST_THREADS=1");
  return host_oracle || !threads;
}
bool skipped_on_streams() {
  if (skipped()) return true;
  const bool waits = fairlead::device::whole_runtime()->has_word_operations(0);
  if (!waits) skip("this GPU cannot wait for words");
  return !waits;
}

#define GPU(call) EXPECT((call) == FAIRLEAD_DEVICE_SUCCESS, "%s: %s", #call, fairlead_device_error_text())

// The same for all rounds of a message from this rank.
unsigned seed_of(int sender, int round) {
  return static_cast<unsigned>(1000 * sender + round);
}

void meet(int peer) {
  int one = 1;
  MUST(MPI_Sendrecv_replace(&one, 1, MPI_INT, peer, tag, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

// A stream of the program, which kernels can hold.
class Stream {
 public:
  Stream() : over_(Place::pinned, sizeof(int)) { GPU(fairlead_device_stream_create(&stream_)); }
  ~Stream() {
    if (comm_ != MPI_COMM_NULL) {
      MUST(MPI_Comm_free(&comm_));
      MUST(MPIX_Stream_free(&handle_));
    }
    GPU(fairlead_device_stream_destroy(stream_));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Collective.
  MPI_Comm comm() {
    if (comm_ != MPI_COMM_NULL) return comm_;
    void* native = fairlead_device_stream_native(stream_);
    MPI_Info info = MPI_INFO_NULL;
    MUST(MPI_Info_create(&info));
    const bool amd = std::string(fairlead_device_provider()) == "rocm";
    MUST(MPI_Info_set(info, "type", amd ? "hipStream_t" : "cudaStream_t"));
    MUST(MPIX_Info_set_hex(info, "value", &native, sizeof native));
    MUST(MPIX_Stream_create(info, &handle_));
    MUST(MPI_Info_free(&info));
    MUST(MPIX_Stream_comm_create(MPI_COMM_WORLD, handle_, &comm_));
    return comm_;
  }
  template <class... Arguments>
  void launch(const char* kernel, unsigned grid, unsigned block, Arguments... arguments) {
    void* addresses[] = {&arguments...};
    GPU(fairlead_device_launch_on(stream_, kernel, grid, block, addresses));
  }
  // What is enqueued later waits for release().
  void hold() {
    release(0);
    launch("run_until", 1, 1, static_cast<void*>(over_));
  }
  void release(int value = 1) {
    __atomic_store_n(reinterpret_cast<int*>(over_.data()), value, __ATOMIC_RELEASE);
  }
  const void* over() const { return over_; }
  void synchronize() { GPU(fairlead_device_stream_synchronize(stream_)); }
  fairlead_device_stream* get() const { return stream_; }

 private:
  fairlead_device_stream* stream_ = nullptr;
  Memory over_;
  MPIX_Stream handle_ = MPIX_STREAM_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

// Both ends of a message between each pair of ranks, in both directions, with their words for kernels.
struct Exchange {
  Exchange(int peer, size_t partition_bytes, bool by_kernels = true)
      : peer(peer),
        partition_bytes(partition_bytes),
        out(Place::device, partitions * partition_bytes),
        in(Place::device, partitions * partition_bytes),
        order(Place::pinned, partitions * sizeof(int)),
        flags(Place::pinned, partitions * sizeof(int)) {
    const auto bytes = static_cast<MPI_Count>(partition_bytes);
    MUST(mpi4::Psend_init(out, partitions, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    MUST(mpi4::Precv_init(in, partitions, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                          &receive));
    if (by_kernels) {
      MUST(MPIX_Prequest_create(send, &marks));
      MUST(MPIX_Prequest_create(receive, &arrivals));
    }
    std::vector<int> first(partitions);
    std::iota(first.begin(), first.end(), 0);
    order.write(first.data(), order.bytes());
  }
  ~Exchange() {
    if (send != MPI_REQUEST_NULL) MUST(MPI_Request_free(&send));
    MUST(MPI_Request_free(&receive));
    if (marks.words) MUST(MPIX_Prequest_free(&marks));
    if (arrivals.words) MUST(MPIX_Prequest_free(&arrivals));
    EXPECT(!marks.words && !arrivals.words, "MPIX_Prequest_free left words");
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void start() {
    in.clear();
    MUST(MPI_Start(&receive));
    MUST(MPI_Start(&send));
  }
  // Writes and marks partitions in the order of `order`, from one of its entries on.
  void fill_and_mark(Stream& stream, int round, int first, int count, const void* over = nullptr) {
    stream.launch("fill_and_mark", static_cast<unsigned>(count), 64u, static_cast<void*>(out),
                  static_cast<unsigned long>(partition_bytes), seed_of(rank, round),
                  static_cast<const void*>(order.data() + sizeof(int) * static_cast<size_t>(first)), over,
                  marks);
  }
  void fill_and_store(Stream& stream, int round, int first, int count) {
    stream.launch("fill_and_store", static_cast<unsigned>(count), 64u, static_cast<void*>(out),
                  static_cast<unsigned long>(partition_bytes), seed_of(rank, round),
                  static_cast<const void*>(order.data() + sizeof(int) * static_cast<size_t>(first)), marks);
  }
  // May kernels store to the receiver in this round?
  bool is_open() const {
    const auto* const way = reinterpret_cast<const FairleadPartitionWay*>(marks.words) - 1;
    return __atomic_load_n(&way->open, __ATOMIC_ACQUIRE);
  }
  void shuffle(unsigned seed) {
    std::vector<int> shuffled(partitions);
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(seed));
    order.write(shuffled.data(), order.bytes());
  }
  int nth(int i) const { return reinterpret_cast<const int*>(order.data())[i]; }
  void write(int partition, int round) {
    std::vector<unsigned char> bytes(partition_bytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = partition_byte(seed_of(rank, round), partition, i);
    out.write(bytes.data(), bytes.size(), partition_bytes * static_cast<size_t>(partition));
  }
  void expect_partition(const Memory& memory, int partition, int round) const {
    std::vector<unsigned char> found(partition_bytes);
    memory.read(found.data(), found.size(), partition_bytes * static_cast<size_t>(partition));
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i] != partition_byte(seed_of(peer, round), partition, i))
        return fail(__FILE__, __LINE__, "round %d, partition %d of %zu bytes: byte %zu is %02x, not %02x",
                    round, partition, partition_bytes, i, found[i],
                    partition_byte(seed_of(peer, round), partition, i));
  }
  void expect_all(const Memory& memory, int round) const {
    for (int i = 0; i < partitions; ++i) expect_partition(memory, i, round);
  }
  // One by one: MPICH 4.0 makes up errors for arrays of partitioned requests.
  void complete(int round) {
    MUST(MPI_Wait(&send, MPI_STATUS_IGNORE));
    MUST(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    expect_all(in, round);
  }
  // What a kernel sees of the receive.
  std::vector<int> seen(Stream& stream) const {
    stream.launch("look_at_arrivals", 1, 1, static_cast<void*>(flags), arrivals);
    stream.synchronize();
    const int* first = reinterpret_cast<const int*>(flags.data());
    return {first, first + partitions};
  }

  // Without an MPI call.
  void await_arrivals(Stream& stream) const {
    for (;; sched_yield()) {
      const std::vector<int> flags = seen(stream);
      if (std::count(flags.begin(), flags.end(), 0) == 0) return;
    }
  }

  int peer;
  size_t partition_bytes;
  Memory out, in, order, flags;
  MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
  MPIX_Prequest marks{}, arrivals{};
};

}  // namespace

RANK_TEST(partitioned, kernels_mark_in_any_order, 2) {
  if (skipped()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    Exchange exchange(peer, bytes);
    Stream one, two;
    for (int round = 0; round < 10; ++round) {
      exchange.shuffle(static_cast<unsigned>(round));
      exchange.start();
      // One kernel, or two at the same time.
      const int first = round % 3 == 0 ? 3 : partitions;
      exchange.fill_and_mark(one, round, 0, first);
      if (first < partitions) exchange.fill_and_mark(two, round, first, partitions - first);
      exchange.complete(round);
      one.synchronize();
      two.synchronize();
    }
  }
}

RANK_TEST(partitioned, kernels_and_the_host_mark, 2) {
  if (skipped()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    Exchange exchange(peer, bytes);
    Stream stream;
    for (int round = 0; round < 10; ++round) {
      exchange.shuffle(static_cast<unsigned>(round));
      exchange.start();
      const int by_kernel = round % (partitions + 1);
      if (by_kernel > 0) exchange.fill_and_mark(stream, round, 0, by_kernel);
      for (int i = by_kernel; i < partitions; ++i) {
        exchange.write(exchange.nth(i), round);
        MUST(mpi4::Pready(exchange.nth(i), exchange.send));
      }
      // What the host has asked for, kernels see, too.
      for (int i = 0, flag = 0; i < round % 3; ++i, flag = 0) {
        while (!flag && MUST(mpi4::Parrived(exchange.receive, i, &flag))) sched_yield();
        EXPECT(exchange.seen(stream)[static_cast<size_t>(i)], "partition %d has arrived for the host only",
               i);
      }
      exchange.complete(round);
      stream.synchronize();
    }
  }
}

RANK_TEST(partitioned, marks_of_kernels_count_for_the_next_start, 2) {
  if (skipped()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Exchange exchange(peer, 3000);
  Stream stream;
  for (int round = 0; round < 5; ++round) {
    exchange.fill_and_mark(stream, round, 0, partitions - round);
    stream.synchronize();
    exchange.start();
    if (round > 0) exchange.fill_and_mark(stream, round, partitions - round, round);
    exchange.complete(round);
    stream.synchronize();
  }
}

// In some rounds the receiver is late, or half of the partitions are only marked.
RANK_TEST(partitioned, kernels_store_to_the_receiver, 2) {
  if (skipped_on_streams()) return;
  if (std::string(fairlead_device_provider()) == "rocm") return skip("simulated ROCm kernels cannot");
  const int peer = partner();
  Stream stream;
  (void)stream.comm();  // finds out where this GPU may write
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : sizes) {
    Exchange exchange(peer, bytes);
    for (int round = 0; round < 12; ++round) {
      exchange.shuffle(seed_of(rank, round));
      const int stored = round % 3 ? partitions : partitions / 2;
      if (round % 4 == 3 && rank > peer) usleep(5000);
      exchange.start();
      // Ctest `partitioned.in_streams` is one in which they can, from the second or third round on.
      for (int ms = 0; getenv("TEST_IN_STREAMS") && round > 3 && round % 2 && !exchange.is_open(); ++ms) {
        if (ms > 10000) return fail(__FILE__, __LINE__, "the way to the receiver does not open");
        usleep(1000);
      }
      exchange.fill_and_store(stream, round, 0, stored);
      if (stored < partitions) exchange.fill_and_mark(stream, round, stored, partitions - stored);
      stream.synchronize();
      exchange.complete(round);
      EXPECT(!exchange.is_open(), "the way stays open");
    }
  }
}

// The kernel runs until the partitions have arrived. (MPICH 4.0 moves the message when all partitions are
// ready.) Meanwhile this rank makes no MPI call.
RANK_TEST(partitioned, what_kernels_mark_arrives_while_they_run, 2) {
  if (skipped()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : {size_t{100}, size_t{300000}}) {
    Exchange exchange(peer, bytes);
    Stream stream, other;
    for (int round = 0; round < 4; ++round) {
      exchange.shuffle(static_cast<unsigned>(round));
      exchange.start();
      stream.release(0);
      exchange.fill_and_mark(stream, round, 0, partitions, stream.over());
      exchange.await_arrivals(other);
      exchange.expect_all(exchange.in, round);
      EXPECT(fairlead_device_stream_query(stream.get()) == FAIRLEAD_DEVICE_NOT_READY, "the kernel has ended");
      stream.release();
      exchange.complete(round);
      stream.synchronize();
    }
  }
}

RANK_TEST(partitioned, kernels_see_what_has_arrived_in_this_round, 2) {
  if (skipped()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Exchange exchange(peer, 5000);
  Stream stream;
  for (int round = 0; round < 6; ++round) {
    exchange.shuffle(static_cast<unsigned>(round));  // the same order at the peer
    exchange.start();
    for (int ready = 0; ready <= partitions; ready += 4) {
      for (int i = std::max(ready - 4, 0); i < ready; ++i) {
        exchange.write(exchange.nth(i), round);
        MUST(mpi4::Pready(exchange.nth(i), exchange.send));
      }
      for (int looks = 0; looks < 20; ++looks) {
        const std::vector<int> flags = exchange.seen(stream);
        for (int i = 0; i < partitions; ++i) {
          const int partition = exchange.nth(i);
          if (!flags[static_cast<size_t>(partition)]) continue;
          EXPECT(i < ready, "round %d: partition %d has arrived before it was sent", round, partition);
          exchange.expect_partition(exchange.in, partition, round);
        }
      }
      if (ready < partitions) meet(peer);
    }
    exchange.await_arrivals(stream);
    exchange.complete(round);
    const std::vector<int> flags = exchange.seen(stream);
    EXPECT(std::count(flags.begin(), flags.end(), 1) == partitions, "a partition that had arrived is gone");
    meet(peer);
  }
}

// All rounds are enqueued before the first one may begin.
RANK_TEST(partitioned, S2_rounds_follow_the_order_of_a_stream, 2) {
  if (skipped_on_streams()) return;
  const int peer = partner();
  Stream stream;
  const MPI_Comm comm = stream.comm();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 12;
  for (size_t bytes : sizes) {
    Exchange exchange(peer, bytes);
    std::vector<Memory> copies;
    for (int round = 0; round < rounds; ++round) copies.emplace_back(Place::device, exchange.in.bytes());
    stream.hold();
    for (int round = 0; round < rounds; ++round) {
      MUST(MPIX_Start_enqueue(&exchange.receive, comm));
      MUST(MPIX_Start_enqueue(&exchange.send, comm));
      exchange.fill_and_mark(stream, round, 0, partitions);
      stream.launch("await_and_copy", 1, 1, static_cast<void*>(copies[static_cast<size_t>(round)]),
                    static_cast<void*>(exchange.in), static_cast<unsigned long>(bytes), exchange.arrivals);
      MUST(MPIX_Wait_enqueue(&exchange.send, MPI_STATUS_IGNORE));
      MUST(MPIX_Wait_enqueue(&exchange.receive, MPI_STATUS_IGNORE));
    }
    stream.release();
    stream.synchronize();
    for (int round = 0; round < rounds; ++round)
      exchange.expect_all(copies[static_cast<size_t>(round)], round);
  }
}

// The peer marks nothing before the kernel behind the start has looked.
RANK_TEST(partitioned, S2_a_start_on_a_stream_hides_the_arrivals_of_the_last_round, 2) {
  if (skipped_on_streams()) return;
  const int peer = partner();
  Stream stream;
  const MPI_Comm comm = stream.comm();
  if (peer == MPI_PROC_NULL) return;
  Exchange exchange(peer, 2000);
  for (int round = 0; round < 20; ++round) {
    stream.hold();
    MUST(MPIX_Start_enqueue(&exchange.receive, comm));
    stream.launch("look_at_arrivals", 1, 1, static_cast<void*>(exchange.flags), exchange.arrivals);
    stream.release();
    stream.synchronize();
    const int* const flags = reinterpret_cast<const int*>(exchange.flags.data());
    EXPECT(std::count(flags, flags + partitions, 0) == partitions, "round %d: arrivals of the last round",
           round);
    meet(peer);
    MUST(MPIX_Start_enqueue(&exchange.send, comm));
    exchange.fill_and_mark(stream, round, 0, partitions);
    MUST(MPIX_Wait_enqueue(&exchange.send, MPI_STATUS_IGNORE));
    MUST(MPIX_Wait_enqueue(&exchange.receive, MPI_STATUS_IGNORE));
    stream.synchronize();
    exchange.expect_all(exchange.in, round);
  }
}

RANK_TEST(partitioned, S5_a_graph_marks_and_sees_arrivals_anew_in_each_launch, 2) {
  if (skipped_on_streams()) return;
  if (std::string(fairlead_device_provider()) == "rocm") return skip("ROCm does not capture waits for words");
  const int peer = partner();
  Stream stream;
  const MPI_Comm comm = stream.comm();
  if (peer == MPI_PROC_NULL) return;
  Exchange exchange(peer, 4000);
  Memory copy(Place::device, exchange.in.bytes());
  fairlead_device_graph* graph = nullptr;
  GPU(fairlead_device_capture_begin(stream.get()));
  MUST(MPIX_Start_enqueue(&exchange.receive, comm));
  MUST(MPIX_Start_enqueue(&exchange.send, comm));
  exchange.fill_and_mark(stream, 7, 0, partitions);
  stream.launch("await_and_copy", 1, 1, static_cast<void*>(copy), static_cast<void*>(exchange.in), 4000ul,
                exchange.arrivals);
  MUST(MPIX_Wait_enqueue(&exchange.send, MPI_STATUS_IGNORE));
  MUST(MPIX_Wait_enqueue(&exchange.receive, MPI_STATUS_IGNORE));
  GPU(fairlead_device_capture_end(stream.get(), &graph));
  for (int launch = 0; launch < 5; ++launch) {
    copy.clear();
    exchange.in.clear();
    GPU(fairlead_device_graph_launch(graph, stream.get()));
    stream.synchronize();
    exchange.expect_all(copy, 7);
  }
  GPU(fairlead_device_graph_destroy(graph));
}

RANK_TEST(partitioned, kernels_mark_layouts_with_gaps, 2) {
  if (skipped()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int blocks = 100, block = 3, stride = 5;
  constexpr size_t sent = stride * blocks, received = block * blocks;  // bytes of a partition
  MPI_Datatype vector, gaps;
  MUST(MPI_Type_vector(blocks, block, stride, MPI_BYTE, &vector));
  MUST(MPI_Type_create_resized(vector, 0, sent, &gaps));
  MUST(MPI_Type_commit(&gaps));
  Exchange exchange(peer, sent, false);
  MUST(MPI_Request_free(&exchange.send));
  MUST(MPI_Request_free(&exchange.receive));
  MUST(mpi4::Psend_init(exchange.out, partitions, 1, gaps, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &exchange.send));
  MUST(mpi4::Precv_init(exchange.in, partitions, received, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &exchange.receive));
  MUST(MPIX_Prequest_create(exchange.send, &exchange.marks));
  MUST(MPI_Type_free(&gaps));
  MUST(MPI_Type_free(&vector));
  Stream stream;
  for (int round = 0; round < 4; ++round) {
    exchange.shuffle(static_cast<unsigned>(round));
    exchange.start();
    exchange.fill_and_mark(stream, round, 0, partitions);
    MUST(MPI_Wait(&exchange.send, MPI_STATUS_IGNORE));
    MUST(MPI_Wait(&exchange.receive, MPI_STATUS_IGNORE));
    stream.synchronize();
    std::vector<unsigned char> found(received * partitions);
    exchange.in.read(found.data(), found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t in_partition = i % received;
      const unsigned char wanted = partition_byte(seed_of(peer, round), static_cast<int>(i / received),
                                                  in_partition / block * stride + in_partition % block);
      if (found[i] != wanted)
        return fail(__FILE__, __LINE__, "byte %zu is %02x, not %02x", i, found[i], wanted);
    }
  }
}

RANK_TEST(partitioned, M8_requests_and_their_words_are_freed_in_either_order, 2) {
  if (skipped()) return;
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Stream stream;
  for (int i = 0; i < 50; ++i) {
    Exchange exchange(peer, 500);
    exchange.start();
    exchange.fill_and_mark(stream, i, 0, partitions);
    exchange.complete(i);
    stream.synchronize();
    if (i % 3 == 0) continue;
    // Without their words, the requests are ordinary ones.
    MUST(MPIX_Prequest_free(&exchange.marks));
    MUST(MPIX_Prequest_free(&exchange.arrivals));
    exchange.start();
    for (int partition = 0; partition < partitions; ++partition) {
      exchange.write(partition, i + 1);
      MUST(mpi4::Pready(partition, exchange.send));
    }
    exchange.complete(i + 1);
    if (i % 3 == 2) continue;
    MUST(MPIX_Prequest_create(exchange.send, &exchange.marks));
    exchange.start();
    exchange.fill_and_mark(stream, i + 2, 0, partitions);
    exchange.complete(i + 2);
    stream.synchronize();
  }
  // Freed while active: what is marked later arrives all the same.
  Exchange exchange(peer, 500);
  exchange.start();
  MUST(MPI_Request_free(&exchange.send));
  exchange.fill_and_mark(stream, 3, 0, partitions);
  MUST(MPI_Wait(&exchange.receive, MPI_STATUS_IGNORE));
  stream.synchronize();
  exchange.expect_all(exchange.in, 3);
  meet(peer);  // which has received: the buffer of the send is free
}

RANK_TEST(partitioned, requests_that_kernels_cannot_use_are_refused, 2) {
  if (mpi4::lacks_partitioned()) return;
  if (host_oracle) return skip("needs Fairlead");
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  // Fairlead has asked for it if the program is linked with an MPI that has MPIX_Stream_comm_create.
  int level = MPI_THREAD_SINGLE;
  MUST(MPI_Query_thread(&level));
  MPI_Errhandler before;
  MUST(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
  MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  for (Place place : host_and_device) {
    Memory out(place, 100), in(place, 100);
    MPI_Request requests[2], other;
    MPIX_Prequest first{}, second{};
    MUST(mpi4::Precv_init(in, 4, 25, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    MUST(mpi4::Psend_init(out, 4, 25, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (MPI_Request& request : requests) {
      if (place == Place::host || level < MPI_THREAD_MULTIPLE) {
        EXPECT_ERROR(MPIX_Prequest_create(request, &first), MPI_ERR_REQUEST);
        continue;
      }
      MUST(MPIX_Prequest_create(request, &first));
      EXPECT(first.partitions == 4, "%d partitions", first.partitions);
      EXPECT_ERROR(MPIX_Prequest_create(request, &second), MPI_ERR_REQUEST);
      MUST(MPIX_Prequest_free(&first));
    }
    for (MPI_Request& request : requests) {
      MUST(MPI_Start(&request));
      EXPECT_ERROR(MPIX_Prequest_create(request, &second), MPI_ERR_REQUEST);
    }
    EXPECT_ERROR(MPIX_Prequest_free(&second), MPI_ERR_REQUEST);
    MUST(mpi4::Pready_range(0, 3, requests[1]));
    for (MPI_Request& request : requests) MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
    MUST(MPI_Send_init(out, 100, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &other));
    EXPECT_ERROR(MPIX_Prequest_create(other, &second), MPI_ERR_REQUEST);
    MUST(MPI_Request_free(&other));
  }
  MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
  MUST(MPI_Errhandler_free(&before));
}
