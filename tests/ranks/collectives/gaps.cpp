// SPDX-License-Identifier: Apache-2.0
//
// Collectives of layouts with gaps on device memory: each rank has random ones of its own for what it sends
// and receives, some of them none, and lies on the device or, in some rounds, in host memory. What must
// arrive is computed from a walk of their descriptions that knows no MPI. The seed is printed; --seed N
// --rounds 1 repeats a round.

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>

#include "harness/address_space.h"
#include "harness/laid_out.h"
#include "harness/rounds.h"

using namespace ranks;
using random_layout::Generator;

namespace {

// An element of `bytes` bytes: some random layout, and a run of bytes behind it.
Node element_of(uint64_t bytes, Generator& generator) {
  if (generator.pick(0, 4) == 0) {
    Node dense;
    dense.bytes = bytes;
    dense.extent = dense.high = static_cast<int64_t>(bytes);
    return dense;
  }
  Node part = generator.make(static_cast<int>(generator.pick(1, 4)));
  while (part.size() == 0 || part.size() > bytes || !host_mpi_moves(part))
    part = generator.make(static_cast<int>(generator.pick(0, 2)), 40);
  Node tail;
  const uint64_t parts = bytes / part.size();
  tail.bytes = bytes - parts * part.size();
  tail.extent = tail.high = static_cast<int64_t>(tail.bytes);
  const int64_t walk = static_cast<int64_t>(parts - 1) * part.extent;
  Node element;
  element.kind = Node::Kind::list;
  element.low = element.lower = part.low + std::min<int64_t>(walk, 0);
  const int64_t place = part.high + std::max<int64_t>(walk, 0) + static_cast<int64_t>(generator.pick(0, 16));
  element.high = place + tail.high;
  element.extent = element.high - element.low + static_cast<int64_t>(generator.pick(0, 2)) * 8;
  element.blocks = {parts, tail.bytes ? uint64_t{1} : uint64_t{0}};
  element.offsets = {0, place};
  if (tail.bytes == 0) tail.bytes = 1;
  element.children = {part, tail};
  return element;
}

enum class Kind { bcast, gather, scatter, allgather, alltoall, alltoallw };

// One collective, as all ranks know it: what each of them brings follows from the seed.
class Round {
 public:
  explicit Round(uint64_t seed) : seed_(seed), plan_(seed, false, false) {
    kind_ = static_cast<Kind>(plan_.pick(0, 5));
    bytes_ = plan_.pick(0, 3) ? plan_.pick(1, 4000) : plan_.pick(1, 100000);
    root_ = static_cast<int>(plan_.pick(0, static_cast<uint64_t>(size - 1)));
    each_ = plan_.pick(0, 1) != 0;
    nonblocking_ = plan_.pick(0, 2) == 0;
    in_place_ = (kind_ == Kind::allgather || kind_ == Kind::alltoall) && plan_.pick(0, 3) == 0;
    some_on_host_ = plan_.pick(0, 4) == 0 && !getenv("FAIRLEAD_COLL_UNIFORM");
    // With counts and displacements, those of other ranks come in another order.
    for (int peer = 0; peer < size; ++peer) {
      counts_.push_back(1);
      displacements_.push_back(each_ ? (peer + static_cast<int>(seed % 5)) % size : peer);
    }
  }

  void run() {
    Generator mine(seed_ * 100 + static_cast<uint64_t>(rank), false, false);
    const bool on_host = some_on_host_ && mine.pick(0, 1);
    const Place place = on_host ? Place::host : Place::device;
    Spread out(place, layout(rank, true), sent(), content(rank, true)),
        in(place, layout(rank, false), received(), content(rank, false));
    Type out_type(layout(rank, true)), in_type(layout(rank, false));
    MPI_Request request = MPI_REQUEST_NULL;
    call(out.address(), out_type, in.address(), in_type, &request);
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (receives()) in.expect(wanted(in));
    std::string why;
    EXPECT(in.holds(&why), "%s: received wrongly: %s", text().c_str(), why.c_str());
    EXPECT(out.holds(&why), "%s: the source has changed: %s", text().c_str(), why.c_str());
  }

 private:
  const Node& layout(int of, bool sending) {
    std::unique_ptr<Node>& node = nodes_[static_cast<size_t>(2 * of + sending)];
    if (!node) {
      Generator generator(seed_ * 1000 + static_cast<uint64_t>(2 * of + sending), false, false);
      node = std::make_unique<Node>(element_of(bytes_, generator));
    }
    return *node;
  }
  std::mt19937_64& content(int of, bool sending) {
    random_.seed(seed_ * 1000 + static_cast<uint64_t>(2 * of + sending));
    return random_;
  }
  bool to_each() const {
    return kind_ == Kind::scatter || kind_ == Kind::alltoall || kind_ == Kind::alltoallw;
  }
  bool from_each() const { return kind_ != Kind::bcast && kind_ != Kind::scatter; }
  bool receives() const {
    return kind_ == Kind::gather ? rank == root_ : kind_ == Kind::bcast ? rank != root_ : true;
  }
  uint64_t sent() const { return to_each() ? static_cast<uint64_t>(size) : 1; }
  uint64_t received() const { return from_each() ? static_cast<uint64_t>(size) : 1; }

  // What rank `from` has for rank `to`.
  std::vector<char> block(int from, int to) {
    const bool in_what_it_receives = in_place_ || kind_ == Kind::bcast;
    Spread buffer(Place::host, layout(from, !in_what_it_receives), in_what_it_receives ? received() : sent(),
                  content(from, !in_what_it_receives));
    size_t element = 0;
    if (to_each()) element = static_cast<size_t>(displacements_[static_cast<size_t>(to)]);
    if (in_place_ && kind_ == Kind::allgather)
      element = static_cast<size_t>(displacements_[static_cast<size_t>(from)]);
    std::vector<char> all = buffer.packed();
    auto begin = all.begin() + static_cast<int64_t>(element * bytes_);
    return {begin, begin + static_cast<int64_t>(bytes_)};
  }

  // The bytes of the receive buffer afterwards, in the order of its elements.
  std::vector<char> wanted(const Spread& in) {
    std::vector<char> all = in.packed();
    for (int peer = 0; peer < (from_each() ? size : 1); ++peer) {
      const std::vector<char> one = block(from_each() ? peer : root_, rank);
      const int element = from_each() ? displacements_[static_cast<size_t>(peer)] : 0;
      std::copy(one.begin(), one.end(), all.begin() + static_cast<int64_t>(bytes_) * element);
    }
    return all;
  }

  void call(const void* out, MPI_Datatype out_type, void* in, MPI_Datatype in_type, MPI_Request* request) {
    const MPI_Comm comm = MPI_COMM_WORLD;
    const int *counts = counts_.data(), *places = displacements_.data();
    const void* from = in_place_ ? MPI_IN_PLACE : out;
    switch (kind_) {
      case Kind::bcast:
        if (nonblocking_)
          MUST(MPI_Ibcast(in, 1, in_type, root_, comm, request));
        else
          MUST(MPI_Bcast(in, 1, in_type, root_, comm));
        return;
      case Kind::gather:
        if (each_)
          MUST(MPI_Gatherv(from, 1, out_type, in, counts, places, in_type, root_, comm));
        else if (nonblocking_)
          MUST(MPI_Igather(from, 1, out_type, in, 1, in_type, root_, comm, request));
        else
          MUST(MPI_Gather(from, 1, out_type, in, 1, in_type, root_, comm));
        return;
      case Kind::scatter:
        if (each_)
          MUST(MPI_Scatterv(from, counts, places, out_type, in, 1, in_type, root_, comm));
        else if (nonblocking_)
          MUST(MPI_Iscatter(from, 1, out_type, in, 1, in_type, root_, comm, request));
        else
          MUST(MPI_Scatter(from, 1, out_type, in, 1, in_type, root_, comm));
        return;
      case Kind::allgather:
        if (each_)
          MUST(MPI_Allgatherv(from, 1, out_type, in, counts, places, in_type, comm));
        else if (nonblocking_)
          MUST(MPI_Iallgather(from, 1, out_type, in, 1, in_type, comm, request));
        else
          MUST(MPI_Allgather(from, 1, out_type, in, 1, in_type, comm));
        return;
      case Kind::alltoall:
        if (each_)
          MUST(MPI_Alltoallv(from, counts, places, out_type, in, counts, places, in_type, comm));
        else if (nonblocking_)
          MUST(MPI_Ialltoall(from, 1, out_type, in, 1, in_type, comm, request));
        else
          MUST(MPI_Alltoall(from, 1, out_type, in, 1, in_type, comm));
        return;
      case Kind::alltoallw: {
        std::vector<MPI_Datatype> out_types(counts_.size(), out_type), in_types(counts_.size(), in_type);
        std::vector<int> out_places, in_places;
        for (int place : displacements_) {
          out_places.push_back(place * static_cast<int>(layout(rank, true).extent));
          in_places.push_back(place * static_cast<int>(layout(rank, false).extent));
        }
        MUST(MPI_Alltoallw(out, counts, out_places.data(), out_types.data(), in, counts, in_places.data(),
                           in_types.data(), comm));
      }
    }
  }

  std::string text() {
    static const char* const names[] = {"bcast", "gather", "scatter", "allgather", "alltoall", "alltoallw"};
    return std::string(names[static_cast<int>(kind_)]) + (each_ ? " of each" : "") +
           (nonblocking_ ? ", nonblocking" : "") + (in_place_ ? ", in place" : "") + ", root " +
           std::to_string(root_) + ", from " + layout(rank, true).text() + " to " +
           layout(rank, false).text();
  }

  uint64_t seed_;
  Generator plan_;
  Kind kind_;
  uint64_t bytes_;
  int root_;
  bool each_, nonblocking_, in_place_, some_on_host_;
  std::vector<int> counts_, displacements_;
  std::vector<std::unique_ptr<Node>> nodes_ =
      std::vector<std::unique_ptr<Node>>(static_cast<size_t>(2 * size));
  std::mt19937_64 random_;
};

}  // namespace

RANK_TEST(gaps, collectives_of_random_layouts, 2) {
  repeat("gaps", options.seconds, [](uint64_t seed) { Round(seed).run(); });
}

// Of a matrix by rows: 8 MiB that travel, cut into many pieces where members pass them on.
RANK_TEST(gaps, broadcast_of_a_large_column, 2) {
  constexpr int rows = 1 << 20, width = 3;
  MPI_Datatype column;
  MUST(MPI_Type_vector(rows, 1, width, MPI_DOUBLE, &column));
  MUST(MPI_Type_commit(&column));
  std::vector<double> values(static_cast<size_t>(rows) * width, -1.0);
  if (rank == 0)
    for (int row = 0; row < rows; ++row) values[static_cast<size_t>(row) * width] = row;
  Memory matrix(Place::device, values.size() * sizeof(double));
  matrix.write(values.data(), matrix.bytes());
  MUST(MPI_Bcast(matrix.data(), 1, column, 0, MPI_COMM_WORLD));
  matrix.read(values.data(), matrix.bytes());
  int wrong = 0;
  for (int i = 0; i < rows * width; ++i)
    wrong += values[static_cast<size_t>(i)] != (i % width == 0 ? i / width : -1.0);
  EXPECT(wrong == 0, "%d values are wrong", wrong);
  MUST(MPI_Type_free(&column));
}

// From MPI_BOTTOM, in other order on each rank; far apart in the address space.
RANK_TEST(gaps, broadcast_of_blocks_in_host_and_device_memory, 2) {
  constexpr size_t bytes = 5000;
  const bool host_first = rank % 2 == 0;
  Memory first(host_first ? Place::host : Place::device, bytes),
      second(host_first ? Place::device : Place::host, bytes);
  if (rank == 0) first.fill(key_of(1)), second.fill(key_of(2));
  const int lengths[] = {bytes, bytes};
  MPI_Aint addresses[2];
  MUST(MPI_Get_address(first, &addresses[0]));
  MUST(MPI_Get_address(second, &addresses[1]));
  MPI_Datatype both;
  MUST(MPI_Type_create_hindexed(2, lengths, addresses, MPI_BYTE, &both));
  MUST(MPI_Type_commit(&both));
  MUST(MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD));
  EXPECT_HOLDS(first, key_of(1), bytes);
  EXPECT_HOLDS(second, key_of(2), bytes);
  MUST(MPI_Type_free(&both));
}

// The blocks are one, but no copy may cross from one allocation to the other.
RANK_TEST(gaps, one_block_in_two_allocations, 2) {
  constexpr int bytes = SideBySide::bytes;
  SideBySide blocks;
  blocks.fill(key_of(static_cast<uint64_t>(rank)));
  MUST(MPI_Bcast(MPI_BOTTOM, 1, blocks.type(), 0, MPI_COMM_WORLD));
  EXPECT(blocks.holds(key_of(0)), "a broadcast brought other bytes");
  blocks.fill(key_of(static_cast<uint64_t>(rank)));
  Memory all(Place::device, SideBySide::bytes * static_cast<size_t>(size));
  MUST(MPI_Allgather(MPI_BOTTOM, 1, blocks.type(), all, bytes, MPI_BYTE, MPI_COMM_WORLD));
  std::vector<char> wanted(all.bytes()), found(all.bytes());
  for (size_t of = 0; of < static_cast<size_t>(size); ++of)
    write_pattern(key_of(of), &wanted[of * SideBySide::bytes], SideBySide::bytes);
  all.read(found.data(), found.size());
  EXPECT(found == wanted, "an allgather brought other bytes");
  blocks.fill(0);
  MUST(MPI_Scatter(all, bytes, MPI_BYTE, MPI_BOTTOM, 1, blocks.type(), 0, MPI_COMM_WORLD));
  EXPECT(blocks.holds(key_of(static_cast<uint64_t>(rank))), "a scatter brought other bytes");
}

namespace {

// Ints in an array in host memory and as many in device memory, from MPI_BOTTOM: as elements that follow each
// other, each of which has a part in either.
class TwoArrays {
 public:
  explicit TwoArrays(size_t elements)
      : arrays_{{Place::host, elements * sizeof(int)}, {Place::device, elements * sizeof(int)}} {
    const int lengths[] = {1, 1};
    MPI_Aint addresses[2];
    for (int part : {0, 1}) {
      arrays_[part].clear();
      MUST(MPI_Get_address(arrays_[part], &addresses[part]));
    }
    MPI_Datatype apart, made;
    MUST(MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &apart));
    MUST(MPI_Type_create_resized(apart, 0, sizeof(int), &made));
    MUST(MPI_Type_free(&apart));
    type_.emplace(made);
  }
  MPI_Datatype type() const { return *type_; }
  void put(const std::vector<int>& parts) {
    for (size_t i = 0; i < parts.size(); ++i)
      arrays_[i % 2].write(&parts[i], sizeof(int), i / 2 * sizeof(int));
  }
  std::vector<int> parts() const {
    const size_t elements = arrays_[0].bytes() / sizeof(int);
    std::vector<int> array(elements), found(2 * elements);
    for (size_t part : {0, 1}) {
      arrays_[part].read(array.data(), arrays_[part].bytes());
      for (size_t i = 0; i < elements; ++i) found[2 * i + part] = array[i];
    }
    return found;
  }

 private:
  Memory arrays_[2];
  std::optional<Type> type_;
};

}  // namespace

// Each rank brings two ints for each other one.
RANK_TEST(gaps, elements_in_host_and_device_memory, 2) {
  const auto ranks = static_cast<size_t>(size);
  std::vector<int> sent, wanted, one(ranks, 1), two(ranks, 2), at(ranks), at_pair(ranks), bytes(ranks),
      bytes_of_pair(ranks);
  for (int peer = 0; peer < size; ++peer)
    for (int part : {0, 1}) {
      sent.push_back(1000 * rank + 10 * peer + part);
      wanted.push_back(1000 * peer + 10 * rank + part);
    }
  for (int i = 0; i < size; ++i) {
    const auto peer = static_cast<size_t>(i);
    at[peer] = i;
    at_pair[peer] = 2 * i;
    bytes[peer] = i * static_cast<int>(sizeof(int));
    bytes_of_pair[peer] = 2 * bytes[peer];
  }
  const std::vector<MPI_Datatype> ints(ranks, MPI_INT);
  for (int way = 0; way < 6; ++way) {
    TwoArrays there(ranks);
    const std::vector<MPI_Datatype> types(ranks, there.type());
    std::vector<int> here = way < 3 ? sent : std::vector<int>(2 * ranks, -1);
    if (way >= 3) there.put(sent);
    switch (way) {
      case 0:
        MUST(MPI_Alltoall(here.data(), 2, MPI_INT, MPI_BOTTOM, 1, there.type(), MPI_COMM_WORLD));
        break;
      case 1:
        MUST(MPI_Alltoallv(here.data(), two.data(), at_pair.data(), MPI_INT, MPI_BOTTOM, one.data(),
                           at.data(), there.type(), MPI_COMM_WORLD));
        break;
      case 2:
        MUST(MPI_Alltoallw(here.data(), two.data(), bytes_of_pair.data(), ints.data(), MPI_BOTTOM, one.data(),
                           bytes.data(), types.data(), MPI_COMM_WORLD));
        break;
      case 3:
        MUST(MPI_Alltoall(MPI_BOTTOM, 1, there.type(), here.data(), 2, MPI_INT, MPI_COMM_WORLD));
        break;
      case 4:
        MUST(MPI_Alltoallv(MPI_BOTTOM, one.data(), at.data(), there.type(), here.data(), two.data(),
                           at_pair.data(), MPI_INT, MPI_COMM_WORLD));
        break;
      default:
        MUST(MPI_Alltoallw(MPI_BOTTOM, one.data(), bytes.data(), types.data(), here.data(), two.data(),
                           bytes_of_pair.data(), ints.data(), MPI_COMM_WORLD));
    }
    EXPECT((way < 3 ? there.parts() : here) == wanted, "way %d: wrong", way);
  }
}

// Blocks of many elements, each at a displacement from MPI_BOTTOM.
RANK_TEST(gaps, blocks_of_elements_in_host_and_device_memory, 2) {
  constexpr int each = 3000;
  const auto ranks = static_cast<size_t>(size);
  std::vector<int> wanted, counts(ranks, each), at;
  for (int peer = 0; peer < size; ++peer) {
    at.push_back(peer * each);
    for (int i = 0; i < 2 * each; ++i) wanted.push_back(100000 * peer + i);
  }
  for (bool blocking : {true, false}) {
    TwoArrays there(ranks * each);
    const int* sent = &wanted[static_cast<size_t>(rank) * 2 * each];
    MPI_Request request = MPI_REQUEST_NULL;
    if (blocking)
      MUST(MPI_Allgatherv(sent, 2 * each, MPI_INT, MPI_BOTTOM, counts.data(), at.data(), there.type(),
                          MPI_COMM_WORLD));
    else
      MUST(MPI_Iallgatherv(sent, 2 * each, MPI_INT, MPI_BOTTOM, counts.data(), at.data(), there.type(),
                           MPI_COMM_WORLD, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT(there.parts() == wanted, "an allgatherv brought other elements");
  }
}

namespace {

// A block for each rank, in host and device memory by turns, from MPI_BOTTOM.
class BlocksApart {
 public:
  static constexpr int bytes = 5000;
  explicit BlocksApart(int first) {
    for (int peer = 0; peer < size; ++peer) {
      memory_.emplace_back((peer + first) % 2 == 0 ? Place::host : Place::device, bytes);
      MUST(MPI_Get_address(memory_.back(), &addresses.emplace_back()));
      MPI_Datatype made;
      MUST(MPI_Type_create_hindexed(1, &bytes, &addresses.back(), MPI_BYTE, &made));
      kept_.emplace_back(made);
      absolute.push_back(kept_.back());
    }
  }
  void fill() {
    for (int peer = 0; peer < size; ++peer) memory_[static_cast<size_t>(peer)].fill(key(rank, peer));
  }
  void check(const char* function) const {
    for (int peer = 0; peer < size; ++peer) {
      std::string why;
      EXPECT(memory_[static_cast<size_t>(peer)].holds(key(peer, rank), bytes, &why), "%s, from %d: %s",
             function, peer, why.c_str());
    }
  }

  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Datatype> absolute;  // types of these addresses

 private:
  static uint64_t key(int from, int to) {
    return key_of(static_cast<uint64_t>(from), static_cast<uint64_t>(to));
  }
  std::vector<Memory> memory_;
  std::vector<Type> kept_;
};

}  // namespace

// By addresses in the datatypes and in the displacements. The distance between host and device memory is
// longer than the address space that is left.
RANK_TEST(gaps, blocks_far_apart_with_little_address_space, 2) {
  const auto ranks = static_cast<size_t>(size);
  const std::vector<int> one(ranks, 1), zero(ranks, 0), many(ranks, BlocksApart::bytes), weights(ranks, 1);
  const std::vector<MPI_Datatype> of_bytes(ranks, MPI_BYTE);
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  MPI_Comm graph;
  MUST(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, size, all.data(), weights.data(), size, all.data(),
                                      weights.data(), MPI_INFO_NULL, 0, &graph));
  for (int way = 0; way < 4; ++way)
    for (int first = 0; first < 4; ++first) {
      BlocksApart out(first), in(first / 2);
      out.fill();
      MPI_Request request = MPI_REQUEST_NULL;
      {
        const LittleAddressSpace little(size_t{1} << 30);
        switch (way) {
          case 0:
            MUST(MPI_Alltoallw(MPI_BOTTOM, one.data(), zero.data(), out.absolute.data(), MPI_BOTTOM,
                               one.data(), zero.data(), in.absolute.data(), MPI_COMM_WORLD));
            break;
          case 1:
            MUST(MPI_Ialltoallw(MPI_BOTTOM, one.data(), zero.data(), out.absolute.data(), MPI_BOTTOM,
                                one.data(), zero.data(), in.absolute.data(), MPI_COMM_WORLD, &request));
            break;
          case 2:
            MUST(MPI_Neighbor_alltoallw(MPI_BOTTOM, many.data(), out.addresses.data(), of_bytes.data(),
                                        MPI_BOTTOM, many.data(), in.addresses.data(), of_bytes.data(),
                                        graph));
            break;
          default:
            MUST(MPI_Ineighbor_alltoallw(MPI_BOTTOM, many.data(), out.addresses.data(), of_bytes.data(),
                                         MPI_BOTTOM, many.data(), in.addresses.data(), of_bytes.data(), graph,
                                         &request));
        }
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      }
      in.check(way < 2 ? "alltoallw" : "neighbor_alltoallw");
    }
  MUST(MPI_Comm_free(&graph));
}

// One datatype of both kinds of memory, in a broadcast.
RANK_TEST(gaps, a_datatype_of_distant_parts_with_little_address_space, 2) {
  constexpr int bytes = 5000;
  Memory parts[] = {{Place::host, bytes}, {Place::device, bytes}, {Place::host, bytes}};
  const int lengths[] = {bytes, bytes, bytes};
  MPI_Aint addresses[3];
  for (size_t part = 0; part < 3; ++part) {
    if (rank == 0) parts[part].fill(key_of(part));
    MUST(MPI_Get_address(parts[part], &addresses[part]));
  }
  MPI_Datatype made;
  MUST(MPI_Type_create_hindexed(3, lengths, addresses, MPI_BYTE, &made));
  const Type all(made);
  {
    const LittleAddressSpace little(size_t{1} << 30);
    MUST(MPI_Bcast(MPI_BOTTOM, 1, all, 0, MPI_COMM_WORLD));
  }
  for (size_t part = 0; part < 3; ++part) EXPECT_HOLDS(parts[part], key_of(part), bytes);
}

// Not so far that images leave out what lies between the parts where there is address space enough, if the
// host memory gets the addresses that it asks for.
RANK_TEST(gaps, parts_some_gigabytes_apart_with_little_address_space, 2) {
  constexpr size_t bytes = 5000, apart = size_t{3} << 30, pages = 8192;
  Memory first(Place::device, bytes);
  char* others[2];
  int lengths[] = {bytes, bytes, bytes};
  MPI_Aint addresses[3];
  MUST(MPI_Get_address(first, &addresses[0]));
  for (size_t other : {0, 1}) {
    const uintptr_t wanted =
        (reinterpret_cast<uintptr_t>(first.data()) - (other + 1) * apart) / pages * pages;
    void* const found = mmap(reinterpret_cast<void*>(wanted), pages, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) return skip("no address space");
    others[other] = static_cast<char*>(found);
    MUST(MPI_Get_address(found, &addresses[1 + other]));
  }
  if (rank == 0) {
    first.fill(key_of(2));
    for (size_t other : {0, 1}) write_pattern(key_of(other), others[other], bytes);
  }
  MPI_Datatype made;
  MUST(MPI_Type_create_hindexed(3, lengths, addresses, MPI_BYTE, &made));
  const Type all(made);
  {
    const LittleAddressSpace little(size_t{1} << 30);
    MUST(MPI_Bcast(MPI_BOTTOM, 1, all, 0, MPI_COMM_WORLD));
  }
  EXPECT_HOLDS(first, key_of(2), bytes);
  for (size_t other : {0, 1}) {
    std::vector<char> wanted(bytes);
    write_pattern(key_of(other), wanted.data(), bytes);
    EXPECT(std::equal(wanted.begin(), wanted.end(), others[other]), "part %zu is wrong", 1 + other);
    munmap(others[other], pages);
  }
}
