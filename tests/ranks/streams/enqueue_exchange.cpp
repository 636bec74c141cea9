// SPDX-License-Identifier: Apache-2.0
//
// Enqueued collectives in which each rank has blocks of its own for others: MPIX_Alltoallv_enqueue and those
// among neighbours. Blocks are short and long (they travel in other ways), of all kinds of memory, with gaps,
// to missing neighbours, and several between two ranks.

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <vector>

#include "streams/enqueue.h"

using namespace ranks;

namespace {

using Ints = std::vector<int>;

// Old host MPIs mix up the blocks where there are several between two ranks; the standard says whose is which
// since edition 4.0 only. Fairlead asks them where it cannot copy from one device to another.
bool host_moves_blocks() {
  return std::getenv("FAIRLEAD_NODES") || std::getenv("FAIRLEAD_IPC") || std::getenv("FAIRLEAD_SIM_FAULTS") ||
         std::getenv("FAIRLEAD_STREAM_COLLECTIVE_LIMIT");
}

// A communicator with a topology, and a stream with one like it.
struct Topology {
  const char* name;
  MPI_Comm comm = MPI_COMM_NULL;
  Ints in = {}, out = {};  // the ranks, or MPI_PROC_NULL, in the order of the blocks
  ~Topology() { MPI_Comm_free(&comm); }
};

void make_grid(Topology* made, std::vector<int> shape, std::vector<int> periodic) {
  const int dimensions = static_cast<int>(shape.size());
  MUST(MPI_Dims_create(size, dimensions, shape.data()));
  for (size_t i = 0; i < shape.size(); ++i)
    periodic[i] = periodic[i] && (shape[i] > 2 || !host_moves_blocks());
  MUST(MPI_Cart_create(MPI_COMM_WORLD, dimensions, shape.data(), periodic.data(), 0, &made->comm));
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    int below = 0, above = 0;
    MUST(MPI_Cart_shift(made->comm, dimension, 1, &below, &above));
    made->in.insert(made->in.end(), {below, above});
    made->out.insert(made->out.end(), {below, above});
  }
}

// Everyone sends to the next rank, twice, and to itself, and rank 0 to all others, besides.
void make_graph(Topology* made) {
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  made->out = {next, rank};
  made->in = {rank, last};
  if (!host_moves_blocks()) {
    made->out.push_back(next);
    made->in.push_back(last);
    for (int other = 1; rank == 0 && other < size; ++other) made->out.push_back(other);
    if (rank > 0) made->in.push_back(0);
  }
  MUST(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, static_cast<int>(made->in.size()), made->in.data(),
                                      MPI_UNWEIGHTED, static_cast<int>(made->out.size()), made->out.data(),
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made->comm));
}

// The number of bytes of a block is that of both its ends; some have none.
int elements_between(int from, int to, int round) {
  constexpr int of[] = {0, 1, 7, 1000, 40000, 300000};
  return of[(3 * from + to + round) % 6];
}
// The message-th from one rank to another.
int element(int from, int to, int message, int round, int i) {
  return ((from * 31 + to) * 31 + message) * 31 + round * 7 + i;
}
int times_before(const Ints& ranks, size_t end) {
  int times = 0;
  for (size_t i = 0; i < end; ++i) times += ranks[i] == ranks[end];
  return times;
}

// Of this many elements; those between blocks stay as they are.
struct Blocks {
  Ints counts = {}, places = {}, content = {};
};

// `message(k)`: which one of those with this rank the block k is.
Blocks blocks_of(const Ints& ranks, bool sent, int round, bool equal,
                 const std::function<int(size_t)>& message) {
  Blocks made;
  for (size_t k = 0; k < ranks.size(); ++k) {
    const int other = ranks[k], from = sent ? rank : other, to = sent ? other : rank;
    const bool missing = other == MPI_PROC_NULL;
    const int count = equal ? 100 : missing ? 5 : elements_between(from, to, round);
    made.counts.push_back(count);
    if (!equal) made.content.push_back(-1);
    made.places.push_back(static_cast<int>(made.content.size()));
    for (int i = 0; i < count; ++i)
      made.content.push_back(missing ? -1 : element(from, to, message(k), round, i));
  }
  return made;
}

void expect(const Memory& received, const Ints& wanted, const char* what, int round) {
  Ints got(wanted.size());
  received.read(got.data(), got.size() * sizeof(int));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (got[i] != wanted[i])
      return fail(__FILE__, __LINE__, "%s, round %d: element %zu is %d, not %d", what, round, i, got[i],
                  wanted[i]);
}

using Enqueue = std::function<void(const Blocks& sent, const void* from, const Blocks& received, void* to)>;

// Enqueues it behind the copy that makes what is sent, on a stream that is held.
void run(Stream& stream, const char* what, const Blocks& sent, const Blocks& received, Place from, Place to,
         int round, const Enqueue& enqueue) {
  const size_t out = sent.content.size() * sizeof(int), in = received.content.size() * sizeof(int);
  Memory produced(Place::device, out + 4), buffer(from, out + 4), target(to, in + 4);
  produced.write(sent.content.data(), out);
  const Ints before(received.content.size(), -1);
  target.write(before.data(), in);
  stream.hold();
  if (from == Place::device)
    stream.copy(buffer, produced);
  else
    buffer.write(sent.content.data(), out);
  enqueue(sent, buffer.data(), received, target.data());
  stream.release();
  stream.synchronize();
  expect(target, received.content, what, round);
}

constexpr Place places[][2] = {{Place::device, Place::device},
                               {Place::device, Place::host},
                               {Place::host, Place::device},
                               {Place::pinned, Place::pinned}};

// `grid`: of two blocks in each dimension, the one that comes from below was sent upwards.
void exchange_among_neighbors(const Topology& topology, bool grid) {
  Stream stream(StreamKind::non_blocking, topology.comm);
  auto sent_as = [&](size_t k) { return times_before(topology.out, k); };
  auto received_as = [&](size_t k) {
    if (!grid) return times_before(topology.in, k);
    // The sender's block is that of the other direction.
    int times = 0;
    for (size_t i = 0; i < (k ^ 1); ++i) times += topology.in[i ^ 1] == topology.in[k];
    return times;
  };
  for (int round = 0; round < 6; ++round) {
    const auto& [from, to] = places[(round + rank) % 4];
    const Blocks sent = blocks_of(topology.out, true, round, false, sent_as),
                 received = blocks_of(topology.in, false, round, false, received_as);
    run(stream, topology.name, sent, received, from, to, round,
        [&](const Blocks& out, const void* buffer, const Blocks& in, void* target) {
          // The program may change its arrays after the call.
          Ints counts = out.counts, at = out.places;
          MUST(MPIX_Neighbor_alltoallv_enqueue(buffer, counts.data(), at.data(), MPI_INT, target,
                                               in.counts.data(), in.places.data(), MPI_INT, stream.comm()));
          std::fill(counts.begin(), counts.end(), 123456789);
        });
    const Blocks equal = blocks_of(topology.out, true, round, true, sent_as),
                 result = blocks_of(topology.in, false, round, true, received_as);
    run(stream, topology.name, equal, result, from, to, round,
        [&](const Blocks&, const void* buffer, const Blocks&, void* target) {
          MUST(MPIX_Neighbor_alltoall_enqueue(buffer, 100, MPI_INT, target, 100, MPI_INT, stream.comm()));
        });
    // Everyone gets the same.
    Blocks one{.content = Ints(100)}, all{.content = {}};
    for (int i = 0; i < 100; ++i) one.content[static_cast<size_t>(i)] = element(rank, 0, 0, round, i);
    for (int other : topology.in)
      for (int i = 0; i < 100; ++i)
        all.content.push_back(other == MPI_PROC_NULL ? -1 : element(other, 0, 0, round, i));
    run(stream, topology.name, one, all, from, to, round,
        [&](const Blocks&, const void* buffer, const Blocks&, void* target) {
          MUST(MPIX_Neighbor_allgather_enqueue(buffer, 100, MPI_INT, target, 100, MPI_INT, stream.comm()));
        });
  }
}

}  // namespace

RANK_TEST(enqueue, S2_blocks_of_any_length_to_all, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  Ints everyone;
  for (int other = 0; other < size; ++other) everyone.push_back(other);
  for (int round = 0; round < 12; ++round) {
    const auto& [from, to] = places[(round + rank) % 4];
    auto first = [](size_t) { return 0; };
    run(stream, "to all", blocks_of(everyone, true, round % 7, false, first),
        blocks_of(everyone, false, round % 7, false, first), from, to, round,
        [&](const Blocks& out, const void* buffer, const Blocks& in, void* target) {
          MUST(MPIX_Alltoallv_enqueue(buffer, out.counts.data(), out.places.data(), MPI_INT, target,
                                      in.counts.data(), in.places.data(), MPI_INT, stream.comm()));
        });
  }
}

RANK_TEST(enqueue, S2_neighbors_of_a_periodic_grid, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Topology line{"line"};
  make_grid(&line, {0}, {1});
  exchange_among_neighbors(line, true);
}

RANK_TEST(enqueue, S2_neighbors_of_a_grid_with_edges, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Topology plane{"plane"};
  make_grid(&plane, {0, 0}, {0, 1});
  exchange_among_neighbors(plane, true);
}

RANK_TEST(enqueue, S2_neighbors_of_a_graph, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Topology graph{"graph"};
  make_graph(&graph);
  exchange_among_neighbors(graph, false);
}

// Rows in place, columns by a datatype with gaps, as in an array with ghost cells; also replayed by a graph.
RANK_TEST(enqueue, S5_S7_neighbors_exchange_rows_and_columns_in_a_graph, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Topology line{"line"};
  make_grid(&line, {0}, {1});
  Stream stream(StreamKind::non_blocking, line.comm);
  constexpr int width = 66, height = 40;
  MPI_Datatype column = MPI_DATATYPE_NULL;
  MUST(MPI_Type_vector(height, 1, width, MPI_INT, &column));
  MUST(MPI_Type_commit(&column));
  Memory array(Place::device, width * height * sizeof(int)), produced(Place::device, array.bytes());
  const int counts[] = {1, 1};
  const MPI_Aint sent[] = {sizeof(int), (width - 2) * sizeof(int)},
                 received[] = {0, (width - 1) * sizeof(int)};
  const MPI_Datatype types[] = {column, column};
  auto step = [&] {
    stream.copy(array, produced);
    MUST(MPIX_Neighbor_alltoallw_enqueue(array, counts, sent, types, array, counts, received, types,
                                         stream.comm()));
  };
  device::Graph graph = why_no_graphs() ? nullptr : stream.capture(step);
  for (int round = 0; round < 5; ++round) {
    Ints content(width * height);
    for (int i = 0; i < width * height; ++i)
      content[static_cast<size_t>(i)] = rank * 1000000 + round * 10000 + i;
    produced.write(content.data(), produced.bytes());
    if (graph)
      DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
    else
      step();
    stream.synchronize();
    for (int row = 0; row < height; ++row) {
      const int at = row * width;
      if (line.in[0] != MPI_PROC_NULL)
        content[static_cast<size_t>(at)] = line.in[0] * 1000000 + round * 10000 + at + width - 2;
      if (line.in[1] != MPI_PROC_NULL)
        content[static_cast<size_t>(at + width - 1)] = line.in[1] * 1000000 + round * 10000 + at + 1;
    }
    expect(array, content, "columns", round);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
  if (graph) DRIVER(Stream::gpu().destroy_graph(graph));
  MUST(MPI_Type_free(&column));
}

// As long as can be in the stream, one byte less, and one more, which is a message; several calls wait
// together.
RANK_TEST(enqueue, S2_blocks_that_fill_the_place_in_calls_that_follow_each_other, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  const int most = (1 << 20) / size / 16 * 16;
  constexpr int calls = 5, change[calls] = {0, 1, -1, 0, -24288};
  std::vector<Memory> sent, received;
  std::vector<Ints> counts, places;
  for (int call = 0; call < calls; ++call) {
    // One rank's block is shorter, so that parts of a kernel do not divide evenly.
    Ints count(static_cast<size_t>(size), most + change[call]), place;
    for (int other = 0, at = 0; other < size; at += count[static_cast<size_t>(other++)]) {
      if ((rank + other) % 3 == 1) count[static_cast<size_t>(other)] -= 24000;
      place.push_back(at);
    }
    const auto all = static_cast<size_t>(place.back() + count.back());
    sent.push_back(Memory(Place::device, all));
    received.push_back(Memory(Place::device, all));
    for (int other = 0; other < size; ++other) {
      const auto k = static_cast<size_t>(other);
      std::vector<char> block(static_cast<size_t>(count[k]), static_cast<char>(call * 50 + rank * 7 + other));
      sent.back().write(block.data(), block.size(), static_cast<size_t>(place[k]));
    }
    counts.push_back(count);
    places.push_back(place);
  }
  stream.hold();
  for (size_t call = 0; call < calls; ++call)
    MUST(MPIX_Alltoallv_enqueue(sent[call], counts[call].data(), places[call].data(), MPI_BYTE,
                                received[call], counts[call].data(), places[call].data(), MPI_BYTE,
                                stream.comm()));
  stream.release();
  stream.synchronize();
  for (size_t call = 0; call < calls; ++call)
    for (int other = 0; other < size; ++other) {
      const auto k = static_cast<size_t>(other);
      std::vector<char> got(static_cast<size_t>(counts[call][k]));
      received[call].read(got.data(), got.size(), static_cast<size_t>(places[call][k]));
      const char wanted = static_cast<char>(static_cast<int>(call) * 50 + other * 7 + rank);
      const auto wrong = std::find_if(got.begin(), got.end(), [&](char byte) { return byte != wanted; });
      EXPECT(wrong == got.end(), "call %zu, from %d: byte %td is %d, not %d", call, other,
             wrong - got.begin(), wrong == got.end() ? 0 : *wrong, wanted);
    }
}

// Rank 0 names rank 1 as its neighbour, which does not name it; others have none.
RANK_TEST(enqueue, S3_a_graph_that_is_not_symmetric, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Topology graph{"graph"};
  const Ints ends(static_cast<size_t>(size), 1);
  const int neighbor = 1;
  MUST(MPI_Graph_create(MPI_COMM_WORLD, size, ends.data(), &neighbor, 0, &graph.comm));
  Stream stream(StreamKind::non_blocking, graph.comm);
  Memory sum(Place::device, sizeof(int));
  sum.write(&rank, sizeof(int));
  MUST(MPIX_Allreduce_enqueue(MPI_IN_PLACE, sum, 1, MPI_INT, MPI_SUM, stream.comm()));
  stream.synchronize();
  int got = 0;
  sum.read(&got, sizeof got);
  EXPECT(got == size * (size - 1) / 2, "the sum is %d", got);
}
