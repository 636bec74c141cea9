// SPDX-License-Identifier: Apache-2.0
//
// Collectives on GPU streams (S1 to S7, docs/design/streams.md), those that run in the stream itself and
// those that the CPU starts: up to FAIRLEAD_STREAM_COLLECTIVE_LIMIT bytes, and above.

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "streams/enqueue.h"

using namespace ranks;

namespace {

constexpr int limit = (1 << 20) / sizeof(int);  // of FAIRLEAD_STREAM_COLLECTIVE_LIMIT=1m, in elements
constexpr int any_round = 3;

using Ints = std::vector<int>;

enum Function { bcast, reduce, allreduce, reduce_scatter_block, allgather, alltoall, functions };
constexpr bool blocks_in[] = {false, false, false, true, false, true};
constexpr bool blocks_out[] = {false, false, false, false, true, true};

int value(int of_rank, int index, int round) {
  return of_rank * 7919 + index * 31 + round * 101;
}

Ints input_of(int of_rank, int count, int round) {
  Ints values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = value(of_rank, i, round);
  return values;
}

// The result of this rank; empty if it has none.
Ints result_of(Function function, int count, int root, int round) {
  Ints result;
  if (function == bcast) return input_of(root, count, round);
  if (function == reduce && rank != root) return result;
  const int from = function == reduce_scatter_block || function == alltoall ? rank * count : 0;
  if (function == allgather || function == alltoall) {
    for (int member = 0; member < size; ++member)
      for (int i = 0; i < count; ++i) result.push_back(value(member, from + i, round));
    return result;
  }
  for (int i = 0; i < count; ++i) {
    int sum = 0;
    for (int member = 0; member < size; ++member) sum += value(member, from + i, round);
    result.push_back(sum);
  }
  return result;
}

int start(Function function, const void* from, void* to, int count, int root, MPI_Comm comm) {
  switch (function) {
    case bcast:
      return MPIX_Bcast_enqueue(to, count, MPI_INT, root, comm);
    case reduce:
      return MPIX_Reduce_enqueue(from, to, count, MPI_INT, MPI_SUM, root, comm);
    case allreduce:
      return MPIX_Allreduce_enqueue(from, to, count, MPI_INT, MPI_SUM, comm);
    case reduce_scatter_block:
      return MPIX_Reduce_scatter_block_enqueue(from, to, count, MPI_INT, MPI_SUM, comm);
    case allgather:
      return MPIX_Allgather_enqueue(from, count, MPI_INT, to, count, MPI_INT, comm);
    default:
      return MPIX_Alltoall_enqueue(from, count, MPI_INT, to, count, MPI_INT, comm);
  }
}

std::vector<char> bytes_of(const Ints& values) {
  const char* first = reinterpret_cast<const char*>(values.data());
  return {first, first + values.size() * sizeof(int)};
}

struct Call {
  Function function;
  int count, root, round;
  bool in_place;
  Place from = Place::device, to = Place::device;
};

// One call, whose bytes the stream produces while it is held.
void check(Stream& stream, const Call& call) {
  const auto size_of = [](int elements) { return static_cast<size_t>(elements) * sizeof(int); };
  const int in = call.count * (blocks_in[call.function] ? size : 1),
            out = call.count * (blocks_out[call.function] ? size : 1), both = std::max(in, out);
  const bool takes_from_result =
      call.function == bcast || (call.in_place && (call.function != reduce || rank == call.root));
  const int at = call.function == allgather && call.in_place ? rank * call.count : 0;
  const Ints input = input_of(rank, in, call.round),
             wanted = result_of(call.function, call.count, call.root, call.round);
  Memory produced(Place::device, size_of(in)), from(call.from, size_of(in)), to(call.to, size_of(both));
  produced.write(input.data(), size_of(in));
  if (takes_from_result && at == 0 && (call.function != bcast || rank == call.root))
    to.write(Ints(static_cast<size_t>(in)).data(), size_of(in));
  stream.hold();
  char* target = takes_from_result ? to.data() + size_of(at) : from.data();
  if (call.function != bcast || rank == call.root)
    DRIVER(Stream::gpu().copy(target, produced.data(), size_of(in), stream.get()));
  MUST(start(call.function, takes_from_result && call.function != bcast ? MPI_IN_PLACE : from.data(), to,
             call.count, call.root, stream.comm()));
  stream.release();
  stream.synchronize();
  if (wanted.empty()) return;
  Ints got(wanted.size());
  to.read(got.data(), size_of(static_cast<int>(got.size())));
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != wanted[i])
      return fail(__FILE__, __LINE__,
                  "function %d, %d elements, root %d, round %d, %s: element %zu is %d, not %d", call.function,
                  call.count, call.root, call.round, call.in_place ? "in place" : "", i, got[i], wanted[i]);
}

bool captures() {
  return std::string(Stream::gpu().name()) != "rocm";
}

}  // namespace

RANK_TEST(enqueue, S2_every_collective_of_every_size, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  int round = 0;
  for (int function = 0; function < functions; ++function) {
    const int blocks = blocks_in[function] || blocks_out[function] ? size : 1;
    for (int count : {0, 1, 2, 1023, limit / blocks, limit / blocks + 1})
      for (bool in_place : {false, true})
        check(stream, {static_cast<Function>(function), count, round % size, ++round, in_place});
  }
}

// From three ranks on, each makes a part of the result; short calls come in between.
RANK_TEST(enqueue, S2_long_collectives_in_parts, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  int round = 0;
  for (Function function : {bcast, reduce, allreduce})
    for (int count : {7 * limit, 7 * limit + 1, 3'600'001})
      for (bool in_place : {false, true}) {
        check(stream, {function, count, round % size, ++round, in_place});
        if (round % 2) check(stream, {allreduce, 17, 0, round, false});
        if (round % 3 == 0) check(stream, {alltoall, 5000, 0, round, false});
      }
}

RANK_TEST(enqueue, S2_collectives_of_other_memory_on_some_ranks, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  constexpr Place places[] = {Place::device, Place::pinned, Place::other_device, Place::pool};
  int round = 0;
  for (int function = 0; function < functions; ++function)
    for (int step = 0; step < 4; ++step)
      for (bool in_place : {false, true}) {
        const Place from = places[(rank + step) % 4], to = places[(rank + step / 2) % 4];
        check(stream,
              {static_cast<Function>(function), 300 + step, round % size, ++round, in_place, from, to});
      }
}

// The stream writes ordinary host memory here, too, so that it is read no earlier.
RANK_TEST(enqueue, S2_collectives_of_host_memory_on_some_ranks, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  constexpr int count = 500;
  for (int host = 0; host < size; ++host)
    for (int round = 0; round < 3; ++round) {
      const Place place = rank == host ? Place::host : Place::device;
      Memory from(place, count * sizeof(int)), to(place, count * sizeof(int));
      // An earlier collective changes the input, in the order of the stream.
      Memory other(Place::device, count * sizeof(int));
      other.write(input_of(rank, count, round).data(), other.bytes());
      from.write(input_of(9, count, round + 50).data(), from.bytes());
      stream.hold();
      MUST(MPIX_Allreduce_enqueue(other, from, count, MPI_INT, MPI_SUM, stream.comm()));
      MUST(MPIX_Allreduce_enqueue(from, to, count, MPI_INT, MPI_MAX, stream.comm()));
      stream.release();
      stream.synchronize();
      std::string why;
      EXPECT(to.holds(bytes_of(result_of(allreduce, count, 0, round)), &why), "host %d, round %d: %s", host,
             round, why.c_str());
    }
}

// Calls with the same buffers are recorded; other ones, and other streams, come in between.
RANK_TEST(enqueue, S2_calls_that_return_with_the_same_buffers, 2) {
  if (const char* reason = why_not()) return skip(reason);
  constexpr int rounds = 40, count = 1000;
  constexpr size_t bytes = count * sizeof(int);
  Stream one, two;
  Memory from(Place::device, bytes), to(Place::device, bytes), produced(Place::device, rounds * bytes),
      results(Place::device, rounds * bytes), other(Place::device, bytes);
  for (int i = 0; i < rounds; ++i)
    produced.write(input_of(rank, count, i).data(), bytes, static_cast<size_t>(i) * bytes);
  auto copy = [&](void* target, const void* source) {
    DRIVER(Stream::gpu().copy(target, source, bytes, one.get()));
  };
  for (int i = 0; i < rounds; ++i) {
    const size_t at = static_cast<size_t>(i) * bytes;
    copy(from, produced.data() + at);
    MUST(MPIX_Allreduce_enqueue(from, to, count, MPI_INT, MPI_MAX, one.comm()));
    copy(results.data() + at, to);
    if (i % 3 == 0) MUST(MPIX_Bcast_enqueue(other, count, MPI_INT, i % size, two.comm()));
  }
  one.synchronize();
  two.synchronize();
  for (int i = 0; i < rounds; ++i) {
    Ints found(count);
    results.read(found.data(), bytes, static_cast<size_t>(i) * bytes);
    Ints wanted = input_of(0, count, i);
    for (int other_rank = 1; other_rank < size; ++other_rank) {
      const Ints theirs = input_of(other_rank, count, i);
      for (int j = 0; j < count; ++j) wanted[j] = std::max(wanted[j], theirs[j]);
    }
    EXPECT(found == wanted, "round %d", i);
  }
}

// One rank comes late: the others are enqueued far ahead of it, and wait in their streams alone.
RANK_TEST(enqueue, S1_S2_many_collectives_while_one_rank_is_late, 2) {
  if (const char* reason = why_not()) return skip(reason);
  constexpr int rounds = 60, count = 777, inputs = 7;
  constexpr size_t bytes = count * sizeof(int);
  for (int late = 0; late < 2; ++late) {
    Stream stream;
    std::vector<Memory> produced;
    for (int i = 0; i < inputs; ++i) {
      produced.emplace_back(Place::device, bytes);
      produced.back().write(input_of(rank, count, i).data(), bytes);
    }
    Memory sent(Place::device, bytes), results(Place::device, rounds * bytes);
    if (rank == late) stream.hold();
    for (int i = 0; i < rounds; ++i) {
      stream.copy(sent, produced[static_cast<size_t>(i % inputs)]);
      MUST(start(i % 3 == 2 ? bcast : allreduce, sent, i % 3 == 2 ? sent.data() : results.data() + i * bytes,
                 count, i % size, stream.comm()));
      if (i % 3 == 2)
        DRIVER(Stream::gpu().copy(results.data() + i * bytes, sent.data(), bytes, stream.get()));
    }
    if (rank == late) stream.release();
    stream.synchronize();
    for (int i = 0; i < rounds; ++i) {
      Ints got(count);
      results.read(got.data(), bytes, i * bytes);
      if (got != result_of(i % 3 == 2 ? bcast : allreduce, count, i % size, i % inputs))
        return fail(__FILE__, __LINE__, "round %d: other values", i);
    }
  }
}

RANK_TEST(enqueue, S2_sums_of_floats_have_the_same_bits_on_all_ranks, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  constexpr int count = 5001;
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(count);
  for (float& each : values)
    each = std::ldexp(static_cast<float>(random() % 100000) - 50000.f, static_cast<int>(random() % 40));
  Memory sent(Place::device, count * 4), sum(Place::device, count * 4);
  sent.write(values.data(), count * 4);
  MUST(MPIX_Allreduce_enqueue(sent, sum, count, MPI_FLOAT, MPI_SUM, stream.comm()));
  stream.synchronize();
  std::vector<unsigned> mine(count), all(static_cast<size_t>(count) * size);
  sum.read(mine.data(), count * 4);
  MUST(MPI_Allgather(mine.data(), count, MPI_UNSIGNED, all.data(), count, MPI_UNSIGNED, MPI_COMM_WORLD));
  for (int member = 0; member < size; ++member)
    EXPECT(std::memcmp(mine.data(), all.data() + static_cast<size_t>(member) * count, count * 4) == 0,
           "rank %d has other bits", member);
}

// Other types, and operations that have no kernel in streams.
RANK_TEST(enqueue, S2_reductions_of_other_types, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  struct {
    MPI_Datatype type;
    MPI_Op op;
    int size;
  } const cases[] = {{MPI_SIGNED_CHAR, MPI_MAX, 1}, {MPI_INT16_T, MPI_BXOR, 2}, {MPI_UINT64_T, MPI_BOR, 8},
                     {MPI_INT, MPI_LAND, 4},        {MPI_2INT, MPI_MAXLOC, 8},  {MPI_INT64_T, MPI_PROD, 8}};
  for (const auto& each : cases)
    for (int count : {1, 33, 1000}) {
      const size_t bytes = static_cast<size_t>(count) * each.size;
      std::vector<char> input(bytes), wanted(bytes), got(bytes);
      for (size_t i = 0; i < bytes; ++i) input[i] = static_cast<char>(i * 7 + rank * 13);
      MUST(MPI_Allreduce(input.data(), wanted.data(), count, each.type, each.op, MPI_COMM_WORLD));
      Memory sent(Place::device, bytes), result(Place::device, bytes);
      sent.write(input.data(), bytes);
      MUST(MPIX_Allreduce_enqueue(sent, result, count, each.type, each.op, stream.comm()));
      stream.synchronize();
      std::string why;
      EXPECT(result.holds(wanted, &why), "%d elements of %d bytes: %s", count, each.size, why.c_str());
    }
}

// The signatures are equal, the datatypes are not.
RANK_TEST(enqueue, S7_bcast_to_a_datatype_with_gaps_on_some_ranks, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  constexpr int count = 400;
  MPI_Datatype every_other = MPI_DATATYPE_NULL;
  for (int root = 0; root < size; ++root) {
    MUST(MPI_Type_vector(count, 1, 2, MPI_INT, &every_other));
    MUST(MPI_Type_commit(&every_other));
    Memory buffer(Place::device, 2 * count * sizeof(int));
    Ints values(2 * count, -1), got(2 * count);
    const bool gaps = rank % 2 == 0;
    if (rank == root)
      for (int i = 0; i < count; ++i)
        values[static_cast<size_t>(gaps ? 2 * i : i)] = value(root, i, any_round);
    buffer.write(values.data(), buffer.bytes());
    MUST(MPIX_Bcast_enqueue(buffer, gaps ? 1 : count, gaps ? every_other : MPI_INT, root, stream.comm()));
    MUST(MPI_Type_free(&every_other));
    stream.synchronize();
    buffer.read(got.data(), buffer.bytes());
    for (int i = 0; i < 2 * count; ++i) {
      const bool part = gaps ? i % 2 == 0 : i < count;
      const int wanted = part ? value(root, gaps ? i / 2 : i, any_round) : -1;
      if (got[static_cast<size_t>(i)] != wanted)
        return fail(__FILE__, __LINE__, "root %d: element %d is %d", root, i, got[static_cast<size_t>(i)]);
    }
  }
}

// The first rank captures the calls, the others make them in each round.
RANK_TEST(enqueue, S5_a_graph_on_one_rank_meets_calls_of_the_others, 2) {
  if (const char* reason = why_not()) return skip(reason);
  if (!captures()) return skip("ROCm does not capture waits for words");
  Stream stream;
  constexpr int count = 900, launches = 5;
  constexpr size_t bytes = count * sizeof(int);
  Memory produced(Place::device, bytes), sent(Place::device, bytes), sum(Place::device, bytes),
      root(Place::device, bytes), host(Place::host, bytes);
  auto step = [&] {
    stream.copy(sent, produced);
    MUST(MPIX_Allreduce_enqueue(sent, sum, count, MPI_INT, MPI_SUM, stream.comm()));
    MUST(MPIX_Barrier_enqueue(stream.comm()));
    if (rank == size - 1) stream.copy(root, sum);
    MUST(MPIX_Bcast_enqueue(root, count, MPI_INT, size - 1, stream.comm()));
    MUST(MPIX_Allreduce_enqueue(root, host, count, MPI_INT, MPI_MAX, stream.comm()));
  };
  device::Graph graph = nullptr;
  if (rank == 0) {
    DRIVER(Stream::gpu().begin_capture(stream.get()));
    step();
    DRIVER(Stream::gpu().end_capture(stream.get(), &graph));
  }
  for (int launch = 0; launch < launches; ++launch) {
    stream.synchronize();
    produced.write(input_of(rank, count, launch).data(), bytes);
    for (Memory* each : {&sum, &root, &host}) each->clear();
    if (rank == 0)
      DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
    else
      step();
    stream.synchronize();
    const std::vector<char> wanted = bytes_of(result_of(allreduce, count, 0, launch));
    std::string why;
    EXPECT(sum.holds(wanted, &why), "launch %d: sum: %s", launch, why.c_str());
    EXPECT(root.holds(wanted, &why), "launch %d: root: %s", launch, why.c_str());
    EXPECT(host.holds(wanted, &why), "launch %d: host: %s", launch, why.c_str());
  }
  if (graph) DRIVER(Stream::gpu().destroy_graph(graph));
}

RANK_TEST(enqueue, S4_collectives_of_two_streams_and_of_two_communicators_of_one, 2) {
  if (const char* reason = why_not()) return skip(reason);
  constexpr int count = 100, rounds = 20;
  constexpr size_t bytes = count * sizeof(int);
  Stream one, two;
  MPI_Comm beside = MPI_COMM_NULL;
  MPIX_Stream handle = MPIX_STREAM_NULL;
  MUST(MPIX_Comm_get_stream(one.comm(), 0, &handle));
  MUST(MPIX_Stream_comm_create(MPI_COMM_WORLD, handle, &beside));
  Memory sent(Place::device, bytes), results(Place::device, 3 * rounds * bytes);
  sent.write(input_of(rank, count, any_round).data(), bytes);
  const MPI_Comm comms[] = {one.comm(), beside, two.comm()};
  // The ranks come to the two streams in another order, except on ROCm, where both may share a hardware
  // queue.
  const int first = rank % 2 && !std::string(Stream::gpu().name()).starts_with("rocm") ? 2 : 0;
  for (int i = 0; i < rounds; ++i)
    for (int step = 0; step < 3; ++step) {
      const int which = (first + step) % 3;
      MUST(start(allreduce, sent, results.data() + (3 * i + which) * bytes, count, 0, comms[which]));
    }
  one.synchronize();
  two.synchronize();
  Ints got(count);
  for (int i = 0; i < 3 * rounds; ++i) {
    results.read(got.data(), bytes, static_cast<size_t>(i) * bytes);
    if (got != result_of(allreduce, count, 0, any_round))
      return fail(__FILE__, __LINE__, "call %d: other values", i);
  }
  MUST(MPI_Comm_free(&beside));
}

RANK_TEST(enqueue, S6_freeing_the_communicator_waits_for_collectives, 2) {
  if (const char* reason = why_not()) return skip(reason);
  constexpr int count = 1000;
  constexpr size_t bytes = count * sizeof(int);
  Stream stream;
  for (int round = 0; round < 8; ++round) {
    Memory sent(Place::device, bytes), root(Place::device, bytes), sum(Place::device, bytes);
    sent.write(input_of(rank, count, round).data(), bytes);
    if (rank == 0) root.write(input_of(0, count, round).data(), bytes);
    // Another communicator of the stream: to end the stream itself would wait as well.
    MPI_Comm beside = MPI_COMM_NULL;
    MPIX_Stream handle = MPIX_STREAM_NULL;
    MUST(MPIX_Comm_get_stream(stream.comm(), 0, &handle));
    MUST(MPIX_Stream_comm_create(MPI_COMM_WORLD, handle, &beside));
    if (rank == round % size) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    MUST(MPIX_Allreduce_enqueue(sent, sum, count, MPI_INT, MPI_SUM, beside));
    MUST(MPIX_Bcast_enqueue(root, count, MPI_INT, 0, beside));
    MUST(MPI_Comm_free(&beside));
    std::string why;
    EXPECT(sum.holds(bytes_of(result_of(allreduce, count, 0, round)), &why), "sum: %s", why.c_str());
    EXPECT(root.holds(bytes_of(input_of(0, count, round)), &why), "root: %s", why.c_str());
  }
}
