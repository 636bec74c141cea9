// SPDX-License-Identifier: Apache-2.0
//
// One-sided operations on GPU streams (S1 to S7, docs/design/streams.md), on windows of device memory and of
// host memory.

#include <cstring>

#include "harness/exposed.h"
#include "streams/enqueue.h"

using namespace ranks;

namespace {

constexpr size_t sizes[] = {8, 5000, (1 << 20) + 8};

int next_rank() {
  return (rank + 1) % size;
}
int previous_rank() {
  return (rank + size - 1) % size;
}
// All ranks may read their windows now, and then change them.
void meet(MPI_Win window) {
  MUST(MPI_Win_sync(window));
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  MUST(MPI_Win_sync(window));
}

// By either function. MPICH 4.0.2 returns from its own MPI_Win_flush_all before the bytes of gets are there.
void flush(int target, MPI_Win window, Place place) {
  if (place == Place::device)
    MUST(MPIX_Win_flush_all_enqueue(window));
  else
    MUST(MPIX_Win_flush_enqueue(target, window));
}

template <class Value>
void expect_equal(const std::vector<Value>& got, const std::vector<Value>& wanted) {
  size_t i = 0;
  while (i < got.size() && got[i] == wanted[i]) ++i;
  if (i < got.size())
    fail(__FILE__, __LINE__, "element %zu is %g, not %g", i, double(got[i]), double(wanted[i]));
}

// Elements that differ from those of other ranks and rounds, and are exact in every type.
template <class Value>
Value element(size_t i, int from, int round) {
  return static_cast<Value>(static_cast<int>(i % 1000) + from * round);
}

template <class Value>
void accumulate_to_rank_0(MPI_Datatype type, Place place) {
  constexpr size_t number = 6000;
  constexpr int rounds = 3;
  Stream stream;
  Exposed window(place, number * sizeof(Value), sizeof(Value), stream.comm());
  window.fill_with(Value{1});
  MUST(MPI_Win_lock_all(0, window));
  meet(window);
  Memory sent(Place::device, number * sizeof(Value));
  std::vector<Memory> produced;
  std::vector<Value> sums(number, 1), sending(number);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < number; ++i) {
      sending[i] = element<Value>(i, rank, round);
      for (int from = 0; from < size && rank == 0; ++from) sums[i] += element<Value>(i, from, round);
    }
    produced.push_back(memory_of(Place::device, sending));
  }
  stream.hold();
  for (const Memory& one : produced) {
    stream.copy(sent, one);
    MUST(MPIX_Accumulate_enqueue(sent, number, type, 0, 0, number, type, MPI_SUM, window));
    MUST(MPIX_Win_flush_enqueue(0, window));
  }
  stream.release();
  stream.synchronize();
  meet(window);
  expect_equal(window.values<Value>(), sums);
  meet(window);
  MUST(MPI_Win_unlock_all(window));
}

}  // namespace

RANK_TEST(enqueue, S1_S2_puts_follow_the_order_of_a_held_stream, 2) {
  if (const char* reason = why_not()) return skip(reason);
  for (Place place : host_and_device)
    for (size_t bytes : sizes) {
      Stream stream;
      Exposed window(place, bytes, 1, stream.comm());
      Memory sent(Place::device, bytes);
      window.memory().clear();
      MUST(MPI_Win_lock_all(0, window));
      for (int round = 0; round < 3; ++round) {
        Memory produced = pattern(bytes, key_of(round, rank));
        meet(window);
        stream.hold();
        stream.copy(sent, produced);
        MUST(MPIX_Put_enqueue(sent, count(sent), MPI_BYTE, next_rank(), 0, count(sent), MPI_BYTE, window));
        MUST(MPIX_Win_flush_enqueue(next_rank(), window));
        meet(window);
        if (round > 0) EXPECT_HOLDS(window.memory(), key_of(round - 1, previous_rank()), bytes);
        meet(window);
        stream.release();
        stream.synchronize();
        meet(window);
        EXPECT_HOLDS(window.memory(), key_of(round, previous_rank()), bytes);
      }
      MUST(MPI_Win_unlock_all(window));
    }
}

// What the stream does behind the flush has the bytes.
RANK_TEST(enqueue, S2_gets_are_complete_when_the_stream_has_passed_a_flush, 2) {
  if (const char* reason = why_not()) return skip(reason);
  for (Place place : host_and_device)
    for (size_t bytes : sizes) {
      Stream stream;
      Exposed window(place, bytes, 1, stream.comm());
      Memory received(Place::device, bytes), first(Place::device, bytes), second(Place::device, bytes);
      window.memory().fill(key_of(rank));
      MUST(MPI_Win_lock_all(0, window));
      meet(window);
      stream.hold();
      for (int round = 0; round < 2; ++round) {
        const int from = round ? previous_rank() : next_rank();
        MUST(MPIX_Get_enqueue(received, count(received), MPI_BYTE, from, 0, count(received), MPI_BYTE,
                              window));
        if (round)
          flush(from, window, place);
        else
          MUST(MPIX_Win_flush_enqueue(from, window));
        stream.copy(round ? second : first, received);
      }
      stream.release();
      stream.synchronize();
      EXPECT_HOLDS(first, key_of(next_rank()), bytes);
      EXPECT_HOLDS(second, key_of(previous_rank()), bytes);
      meet(window);
      MUST(MPI_Win_unlock_all(window));
    }
}

RANK_TEST(enqueue, S2_several_ranks_accumulate_into_one, 2) {
  if (const char* reason = why_not()) return skip(reason);
  for (Place place : host_and_device) {
    accumulate_to_rank_0<int>(MPI_INT, place);
    accumulate_to_rank_0<double>(MPI_DOUBLE, place);
  }
}

RANK_TEST(enqueue, S3_thousands_of_puts_and_one_flush, 2) {
  if (const char* reason = why_not()) return skip(reason);
  constexpr int number = 3000;
  Stream stream;
  Exposed window(Place::device, number * sizeof(int), sizeof(int), stream.comm());
  std::vector<int> values(number), wanted(number);
  for (int i = 0; i < number; ++i) {
    values[i] = 10000 * rank + i;
    wanted[i] = 10000 * previous_rank() + i;
  }
  Memory sent = memory_of(Place::device, values);
  MUST(MPI_Win_lock_all(0, window));
  for (int i = 0; i < number; ++i)
    MUST(MPIX_Put_enqueue(sent.data() + sizeof(int) * static_cast<size_t>(i), 1, MPI_INT, next_rank(), i, 1,
                          MPI_INT, window));
  MUST(MPIX_Win_flush_all_enqueue(window));
  stream.synchronize();
  meet(window);
  expect_equal(window.values<int>(), wanted);
  meet(window);
  MUST(MPI_Win_unlock_all(window));
}

// Rank 0 has locked its window, and waits for a message that rank 1 enqueues behind a put on another stream.
RANK_TEST(enqueue, S4_a_put_that_waits_for_a_lock_stops_no_other_stream, 2) {
  if (const char* reason = why_not()) return skip(reason);
  constexpr size_t bytes = 4000;
  // On an AMD GPU the library's streams leave no two hardware queues to others of their kind.
  Stream one(StreamKind::application), two(StreamKind::application);
  Exposed window(Place::device, bytes, 1, one.comm());
  window.memory().clear();
  Memory sent = pattern(bytes, key_of(1)), received(Place::device, bytes);
  if (rank == 0) MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) {
    MUST(MPI_Recv(received, count(received), MPI_BYTE, 1, tag, two.comm(), MPI_STATUS_IGNORE));
    EXPECT_HOLDS(received, key_of(1), bytes);
    std::string why;
    EXPECT(window.memory().holds(std::vector<char>(bytes, static_cast<char>(guard_byte)), &why),
           "before the unlock: %s", why.c_str());
    MUST(MPI_Win_unlock(0, window));
  } else if (rank == 1) {
    MUST(MPI_Win_lock_all(0, window));
    one.hold();
    MUST(MPIX_Put_enqueue(sent, count(sent), MPI_BYTE, 0, 0, count(sent), MPI_BYTE, window));
    MUST(MPIX_Win_flush_enqueue(0, window));
    two.hold();
    MUST(MPIX_Send_enqueue(sent, count(sent), MPI_BYTE, 0, tag, two.comm()));
    one.release();
    two.release();
    two.synchronize();
    one.synchronize();
    MUST(MPI_Win_unlock_all(window));
  }
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) EXPECT_HOLDS(window.memory(), key_of(1), bytes);
}

RANK_TEST(enqueue, S5_a_graph_puts_anew_in_each_launch, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  constexpr size_t bytes = 30000;
  for (Place place : host_and_device) {
    Stream stream;
    Exposed window(place, bytes, 1, stream.comm());
    Memory produced(Place::device, bytes), sent(Place::device, bytes), back(Place::device, bytes);
    MUST(MPI_Win_lock_all(0, window));
    device::Graph graph = stream.capture([&] {
      stream.copy(sent, produced);
      MUST(MPIX_Put_enqueue(sent, count(sent), MPI_BYTE, next_rank(), 0, count(sent), MPI_BYTE, window));
      MUST(MPIX_Win_flush_enqueue(next_rank(), window));
      MUST(MPIX_Get_enqueue(back, count(back), MPI_BYTE, next_rank(), 0, count(back), MPI_BYTE, window));
      flush(next_rank(), window, place);
      stream.copy(sent, back);
    });
    for (int launch = 0; launch < 5; ++launch) {
      produced.fill(key_of(launch, rank));
      sent.clear();
      DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
      stream.synchronize();
      EXPECT_HOLDS(sent, key_of(launch, rank), bytes);
      meet(window);
      EXPECT_HOLDS(window.memory(), key_of(launch, previous_rank()), bytes);
      meet(window);
    }
    MUST(MPI_Win_unlock_all(window));
    DRIVER(Stream::gpu().destroy_graph(graph));
  }
}

// No launch may be missed, although the stream waits for none of these accumulates.
RANK_TEST(enqueue, S5_launches_of_a_graph_without_a_flush, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  constexpr int launches = 40;
  Stream stream;
  Exposed window(Place::device, sizeof(int), sizeof(int), stream.comm());
  window.fill_with(0);
  Memory one = memory_of(Place::device, std::vector<int>{1});
  MUST(MPI_Win_lock_all(0, window));
  meet(window);
  device::Graph graph = stream.capture(
      [&] { MUST(MPIX_Accumulate_enqueue(one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window)); });
  for (int launch = 0; launch < launches; ++launch) DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
  MUST(MPIX_Win_flush_enqueue(0, window));
  stream.synchronize();
  meet(window);
  const int sum = window.values<int>()[0];
  if (rank == 0) EXPECT(sum == size * launches, "the sum is %d", sum);
  meet(window);
  MUST(MPI_Win_unlock_all(window));
  DRIVER(Stream::gpu().destroy_graph(graph));
}

RANK_TEST(enqueue, S7_puts_and_gets_of_datatypes_with_gaps, 2) {
  if (const char* reason = why_not()) return skip(reason);
  constexpr int blocks = 2000;
  for (Place place : host_and_device) {
    Stream stream;
    Exposed window(place, 3 * blocks * sizeof(int), sizeof(int), stream.comm());
    window.fill_with(-1);
    std::vector<int> values(2 * blocks), came_back(2 * blocks, 0), wanted(3 * blocks, -1);
    for (int i = 0; i < 2 * blocks; ++i) values[i] = 10000 * rank + i;
    for (int i = 0; i < blocks; ++i) {
      came_back[2 * i] = values[2 * i];
      wanted[3 * i + 1] = 10000 * previous_rank() + 2 * i;
    }
    Memory sent = memory_of(Place::device, values),
           back = memory_of(Place::device, std::vector<int>(2 * blocks, 0));
    MPI_Datatype second, third;
    MUST(MPI_Type_vector(blocks, 1, 2, MPI_INT, &second));
    MUST(MPI_Type_vector(blocks, 1, 3, MPI_INT, &third));
    MUST(MPI_Type_commit(&second));
    MUST(MPI_Type_commit(&third));
    MUST(MPI_Win_lock_all(0, window));
    meet(window);
    stream.hold();
    MUST(MPIX_Put_enqueue(sent, 1, second, next_rank(), 1, 1, third, window));
    flush(next_rank(), window, place);
    MUST(MPIX_Get_enqueue(back, 1, second, next_rank(), 1, 1, third, window));
    flush(next_rank(), window, place);
    // New types take the place of those that the program frees.
    for (MPI_Datatype* type : {&second, &third}) MUST(MPI_Type_free(type));
    for (MPI_Datatype* type : {&second, &third}) {
      MUST(MPI_Type_contiguous(2, MPI_CHAR, type));
      MUST(MPI_Type_commit(type));
    }
    stream.release();
    stream.synchronize();
    for (MPI_Datatype* type : {&second, &third}) MUST(MPI_Type_free(type));
    meet(window);
    expect_equal(window.values<int>(), wanted);
    std::vector<int> got(2 * blocks);
    back.read(got.data(), got.size() * sizeof(int));
    expect_equal(got, came_back);
    meet(window);
    MUST(MPI_Win_unlock_all(window));
  }
}

RANK_TEST(enqueue, S3_errors_of_accesses_are_returned_by_the_next_call, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  Exposed window(Place::device, 64, 1, stream.comm());
  Memory buffer = pattern(64, key_of(rank));
  // The stream is held, because the flush would return the error of a put that is over by then.
  auto put = [&](int displacement) {
    stream.hold();
    MUST(MPIX_Put_enqueue(buffer, 64, MPI_BYTE, next_rank(), displacement, 64, MPI_BYTE, window));
    MUST(MPIX_Win_flush_enqueue(next_rank(), window));
    stream.release();
    stream.synchronize();
  };
  put(0);  // without an epoch
  EXPECT_ERROR(MPIX_Win_flush_enqueue(next_rank(), window), MPI_ERR_RMA_SYNC);
  put(0);
  EXPECT_ERROR(MPIX_Barrier_enqueue(stream.comm()), MPI_ERR_RMA_SYNC);
  MUST(MPI_Win_lock_all(0, window));
  put(32);
  EXPECT_ERROR(MPIX_Win_flush_all_enqueue(window), MPI_ERR_RMA_RANGE);
  put(0);
  MUST(MPIX_Win_flush_enqueue(MPI_PROC_NULL, window));
  MUST(MPIX_Put_enqueue(buffer, 64, MPI_BYTE, MPI_PROC_NULL, 0, 64, MPI_BYTE, window));
  MUST(MPIX_Win_flush_all_enqueue(window));
  stream.synchronize();
  meet(window);
  EXPECT_HOLDS(window.memory(), key_of(previous_rank()), 64);
  meet(window);
  MUST(MPI_Win_unlock_all(window));
}

RANK_TEST(enqueue, S3_a_window_without_a_stream_is_an_error, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Memory buffer(Place::device, 8);
  auto is_refused = [&](MPI_Win window) {
    EXPECT_ERROR(MPIX_Put_enqueue(buffer, 8, MPI_BYTE, 0, 0, 8, MPI_BYTE, window), MPI_ERR_WIN);
    EXPECT_ERROR(MPIX_Win_flush_all_enqueue(window), MPI_ERR_WIN);
  };
  for (Place place : host_and_device) {
    Exposed plain(place, 8);
    is_refused(plain);
    std::unique_ptr<Exposed> left;
    {
      Stream stream;
      left = std::make_unique<Exposed>(place, 8, 1, stream.comm());
    }
    is_refused(*left);
  }
}
