// SPDX-License-Identifier: Apache-2.0
//
// Layouts with gaps on device memory: random nested types between all places of memory and both ways, against
// a walk of their description that knows no MPI; every constructor of types; partial receives; types that are
// freed while their message is on its way. The seed is printed; --seed N --rounds 1 repeats the first round
// of it.

#include <fairlead/device.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "harness/laid_out.h"
#include "harness/rounds.h"

using namespace ranks;
using random_layout::Generator;
using random_layout::Node;

namespace {

constexpr int tag = 11;

// MPICH 4.0 reads types after their end where a message of them is on its way; with and without Fairlead.
bool host_frees_types_too_early() {
#ifdef MPICH_VERSION
  return true;
#else
  return false;
#endif
}

// The same description on both ranks, a message from the lower to the higher one.
void exchange(uint64_t seed, bool early_free) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Generator plan(seed, false, false), overlapping(seed + 1, plan.pick(0, 3) == 0, false);
  const uint64_t room = plan.pick(0, 5) == 0 ? 4000 : 200;
  Node to = plan.make(static_cast<int>(plan.pick(0, 5)), room),
       from = overlapping.make(static_cast<int>(plan.pick(0, 5)), room);
  if (to.size() == 0 || from.size() == 0) return;
  uint64_t to_count = 1 + plan.pick(0, 40000 / to.size());
  uint64_t from_count = std::min(1 + plan.pick(0, 40000 / from.size()), to_count * to.size() / from.size());
  if (from_count == 0) {
    to_count = from.size() / to.size() + 1;
    from_count = 1;
  }
  if (to.span(to_count) > longest_span || from.span(from_count) > longest_span) return;
  if (host_oracle && !(host_mpi_moves(to) && host_mpi_moves(from))) return;
  const Place to_place = plan.pick(0, 3) || !host_mpi_moves(to) ? Place::device : Place::host;
  // Between two host buffers Fairlead has no part, and MPICH 5.0 may fail (process_vm_readv).
  const bool from_device = plan.pick(0, 3) || to_place == Place::host || !host_mpi_moves(from);
  const Place from_place = from_device ? Place::device : Place::host;
  const uint64_t mode = plan.pick(0, 5);
  const bool freed_early = early_free && plan.pick(0, 1);
  const bool lower_sends = plan.pick(0, 1) != 0;
  const bool sends = (rank < peer) == lower_sends;
  std::mt19937_64 random(seed);
  Spread out(from_place, from, from_count, random), in(to_place, to, to_count, random);
  Type out_type(from), in_type(to);
  const int out_count = static_cast<int>(from_count), in_count = static_cast<int>(to_count);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  if (sends) {
    switch (mode) {
      case 0:
        MUST(MPI_Send(out.address(), out_count, out_type, peer, tag, MPI_COMM_WORLD));
        break;
      case 1:
        MUST(MPI_Issend(out.address(), out_count, out_type, peer, tag, MPI_COMM_WORLD, &request));
        break;
      case 2:
        MUST(MPI_Send_init(out.address(), out_count, out_type, peer, tag, MPI_COMM_WORLD, &request));
        break;
      default:
        MUST(MPI_Isend(out.address(), out_count, out_type, peer, tag, MPI_COMM_WORLD, &request));
    }
    if (freed_early) out_type.free();
    if (mode == 2) MUST(MPI_Start(&request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (mode == 2) MUST(MPI_Request_free(&request));
  } else {
    if (mode == 3) {
      MUST(MPI_Recv(in.address(), in_count, in_type, peer, tag, MPI_COMM_WORLD, &status));
    } else {
      MUST(MPI_Irecv(in.address(), in_count, in_type, peer, tag, MPI_COMM_WORLD, &request));
      if (freed_early) in_type.free();
      MUST(MPI_Wait(&request, &status));
    }
    EXPECT_STATUS(status, peer, tag, out.bytes());
    in.expect(out.packed());
    std::string why;
    EXPECT(in.holds(&why), "%s: %llu of %s in %s memory received %llu of %s from %s memory", why.c_str(),
           static_cast<unsigned long long>(to_count), to.text().c_str(), to_string(to_place),
           static_cast<unsigned long long>(from_count), from.text().c_str(), to_string(from_place));
  }
}

}  // namespace

RANK_TEST(datatypes, random_layouts_between_all_places, 2) {
  repeat("datatypes", options.seconds / 3, [](uint64_t seed) { exchange(seed, false); });
}

RANK_TEST(datatypes, random_layouts_whose_types_are_freed_early, 2) {
  if (host_frees_types_too_early()) return skip("this MPI needs a type until its message has come");
  repeat("datatypes", options.seconds / 3, [](uint64_t seed) { exchange(seed, true); });
}

namespace {

// One message of `type` in a buffer of `bytes` ints, whose places in the order of travel are `places`.
void check_places(MPI_Datatype type, size_t ints, const std::vector<int>& places, const char* what) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  std::vector<int> content(ints), found(ints);
  for (size_t i = 0; i < ints; ++i) content[i] = static_cast<int>(i) * 7 + 1;
  std::vector<int> packed;
  for (int place : places) packed.push_back(content[static_cast<size_t>(place)]);
  Memory buffer(Place::device, ints * sizeof(int));
  const int count = static_cast<int>(places.size());
  if (rank < peer) {
    buffer.write(content.data(), buffer.bytes());
    MUST(MPI_Send(buffer, 1, type, peer, tag, MPI_COMM_WORLD));
    std::vector<int> doubled(packed);
    for (int& value : doubled) value *= 2;
    MUST(MPI_Send(doubled.data(), count, MPI_INT, peer, tag, MPI_COMM_WORLD));
  } else {
    std::vector<int> arrived(places.size());
    MUST(MPI_Recv(arrived.data(), count, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT(arrived == packed, "%s: sent wrong", what);
    std::fill(content.begin(), content.end(), -1);
    buffer.write(content.data(), buffer.bytes());
    MUST(MPI_Recv(buffer, 1, type, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    buffer.read(found.data(), buffer.bytes());
    for (size_t i = 0; i < places.size(); ++i) content[static_cast<size_t>(places[i])] = 2 * packed[i];
    EXPECT(found == content, "%s: received wrong", what);
  }
}

}  // namespace

RANK_TEST(datatypes, parts_of_arrays, 2) {
  const int sizes[] = {7, 5, 9}, parts[] = {3, 4, 2}, starts[] = {2, 1, 6};
  for (int order : {MPI_ORDER_C, MPI_ORDER_FORTRAN}) {
    MPI_Datatype made;
    MUST(MPI_Type_create_subarray(3, sizes, parts, starts, order, MPI_INT, &made));
    Type type(made);
    const bool c = order == MPI_ORDER_C;
    std::vector<int> places;
    const int fast = c ? 2 : 0, slow = c ? 0 : 2;
    for (int i = 0; i < parts[slow]; ++i)
      for (int j = 0; j < parts[1]; ++j)
        for (int k = 0; k < parts[fast]; ++k)
          places.push_back(((starts[slow] + i) * sizes[1] + starts[1] + j) * sizes[fast] + starts[fast] + k);
    check_places(type, 7 * 5 * 9, places, c ? "a subarray in C" : "a subarray in Fortran");
  }
}

RANK_TEST(datatypes, distributed_arrays, 2) {
  // Each dimension distributed in another way, over a grid of 2 x 3 x 2 processes.
  const int sizes[] = {7, 11, 6}, grid[] = {2, 3, 2};
  constexpr int block = MPI_DISTRIBUTE_BLOCK, cyclic = MPI_DISTRIBUTE_CYCLIC,
                whole = MPI_DISTRIBUTE_DFLT_DARG;
  const int hows[][3] = {{block, cyclic, block}, {cyclic, cyclic, cyclic}, {block, block, cyclic}};
  const int arguments[][3] = {{whole, 2, 4}, {whole, 3, 1}, {5, whole, 2}};
  for (int order : {MPI_ORDER_C, MPI_ORDER_FORTRAN})
    for (int way = 0; way < 3; ++way)
      for (int process : {0, 5, 11}) {
        MPI_Datatype made;
        MUST(MPI_Type_create_darray(12, process, 3, sizes, hows[way], arguments[way], grid, order, MPI_INT,
                                    &made));
        Type type(made);
        const int coordinates[] = {process / 6, process / 2 % 3, process % 2};
        auto mine = [&](int dimension, int index) {
          int length = arguments[way][dimension];
          if (hows[way][dimension] == block) {
            if (length == whole) length = (sizes[dimension] + grid[dimension] - 1) / grid[dimension];
            return index / length == coordinates[dimension];
          }
          if (length == whole) length = 1;
          return index / length % grid[dimension] == coordinates[dimension];
        };
        std::vector<int> places;
        const int fast = order == MPI_ORDER_C ? 2 : 0, slow = 2 - fast;
        for (int i = 0; i < sizes[slow]; ++i)
          for (int j = 0; j < sizes[1]; ++j)
            for (int k = 0; k < sizes[fast]; ++k)
              if (mine(slow, i) && mine(1, j) && mine(fast, k))
                places.push_back((i * sizes[1] + j) * sizes[fast] + k);
        if (!places.empty()) check_places(type, 7 * 11 * 6, places, "a darray");
      }
}

RANK_TEST(datatypes, every_other_constructor, 2) {
  auto check = [](MPI_Datatype made, const std::vector<int>& places, const char* what) {
    Type type(made);
    check_places(type, 40, places, what);
    // A duplicate, and the same of large counts, is the same.
    MPI_Datatype copy;
    MUST(MPI_Type_dup(type, &copy));
    Type duplicate(copy);
    check_places(duplicate, 40, places, what);
  };
  MPI_Datatype made, triple;
  MUST(MPI_Type_vector(3, 2, 5, MPI_INT, &made));
  check(made, {0, 1, 5, 6, 10, 11}, "a vector");
  MUST(MPI_Type_vector(2, 1, 3, MPI_INT, &triple));  // as long as four
  MUST(MPI_Type_contiguous(3, triple, &made));
  check(made, {0, 3, 4, 7, 8, 11}, "contiguous vectors");
  MUST(MPI_Type_create_hvector(2, 2, 48, triple, &made));
  check(made, {0, 3, 4, 7, 12, 15, 16, 19}, "an hvector of vectors");
  const int lengths[] = {2, 0, 1}, displacements[] = {4, 1, 0};
  MUST(MPI_Type_indexed(3, lengths, displacements, triple, &made));
  check(made, {16, 19, 20, 23, 0, 3}, "an indexed type");
  const MPI_Aint bytes[] = {20, 4, 100};
  MUST(MPI_Type_create_hindexed(3, lengths, bytes, triple, &made));
  check(made, {5, 8, 9, 12, 25, 28}, "an hindexed type");
  MUST(MPI_Type_create_indexed_block(3, 2, displacements, MPI_INT, &made));
  check(made, {4, 5, 1, 2, 0, 1}, "an indexed block type");
  const MPI_Aint apart[] = {80, 0, 40};
  MUST(MPI_Type_create_hindexed_block(3, 1, apart, triple, &made));
  check(made, {20, 23, 0, 3, 10, 13}, "an hindexed block type");
  const MPI_Datatype types[] = {MPI_INT, triple, MPI_INT};
  MUST(MPI_Type_create_struct(3, lengths, bytes, types, &made));
  check(made, {5, 6, 25}, "a struct");
  MUST(MPI_Type_create_resized(triple, 0, 20, &made));
  MPI_Datatype two;
  MUST(MPI_Type_contiguous(2, made, &two));
  check(two, {0, 3, 5, 8}, "resized vectors");
  MUST(MPI_Type_free(&made));
  MUST(MPI_Type_free(&triple));
}

namespace {

// Elements of host memory that basic elements of several lengths make up, where these lie.
struct Mixed {
  MPI_Datatype type;  // committed
  const char* what;
  size_t extent;
  std::vector<std::pair<size_t, size_t>> parts;  // places and lengths
};

// All ways to receive into host memory. False where that failed.
bool receive_by(int way, void* buffer, int count, MPI_Datatype type, int source, MPI_Status* status) {
  MPI_Request request;
  MPI_Message message;
  switch (way) {
    case 0:
      return MUST(MPI_Recv(buffer, count, type, source, tag, MPI_COMM_WORLD, status));
    case 1:
      MUST(MPI_Irecv(buffer, count, type, source, tag, MPI_COMM_WORLD, &request));
      return MUST(MPI_Wait(&request, status));
    case 2: {
      MUST(MPI_Recv_init(buffer, count, type, source, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Start(&request));
      const bool received = MUST(MPI_Wait(&request, status));
      MUST(MPI_Request_free(&request));
      return received;
    }
    case 3:
      return MUST(MPI_Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, tag, buffer, count, type, source, tag,
                               MPI_COMM_WORLD, status));
    default:
      MUST(MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, status));
      return MUST(MPI_Mrecv(buffer, count, type, &message, status));
  }
}

void send_into(const Mixed& mixed, int count, int way, int peer) {
  std::vector<char> content(mixed.extent * static_cast<size_t>(count));
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(3 * i + 1);
  if (rank < peer) {
    Memory out(Place::device, content.size());
    out.write(content.data(), content.size());
    MUST(MPI_Send(out, count, mixed.type, peer, tag, MPI_COMM_WORLD));
    return;
  }
  const int room = count + 20;
  std::vector<char> wanted(mixed.extent * static_cast<size_t>(room), static_cast<char>(guard_byte));
  for (size_t at = 0; at < content.size(); at += mixed.extent)
    for (auto [place, length] : mixed.parts) std::copy_n(&content[at + place], length, &wanted[at + place]);
  Memory in(Place::host, wanted.size());
  MPI_Status status;
  if (!receive_by(way, in, room, mixed.type, peer, &status)) return;
  std::string why;
  EXPECT(in.holds(wanted, &why), "%d of %s, way %d: %s", count, mixed.what, way, why.c_str());
  int received = 0;
  MUST(MPI_Get_count(&status, mixed.type, &received));
  EXPECT(received == count, "%d of %s, way %d: counted %d", count, mixed.what, way, received);
}

}  // namespace

// What tells of a device message lands in these buffers as well, and would end inside one of the elements.
RANK_TEST(datatypes, from_device_memory_into_mixed_elements_of_host_memory, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  auto pair_of = [](MPI_Datatype first, MPI_Datatype second, MPI_Aint place) {
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {0, place};
    const MPI_Datatype types[] = {first, second};
    MPI_Datatype made;
    MUST(MPI_Type_create_struct(2, lengths, places, types, &made));
    return Type(made);
  };
  const Type apart = pair_of(MPI_CHAR, MPI_DOUBLE, 8), other = pair_of(MPI_DOUBLE, MPI_FLOAT, 8),
             short_first = pair_of(MPI_SHORT, MPI_INT64_T, 8);
  const Mixed all[] = {{apart, "a char and a double", 16, {{0, 1}, {8, 8}}},
                       {other, "a double and a float", 16, {{0, 8}, {8, 4}}},
                       {short_first, "a short and a long integer", 16, {{0, 2}, {8, 8}}},
                       {MPI_LONG_DOUBLE_INT, "a long double and an int", 32, {{0, 16}, {16, 4}}}};
  for (const Mixed& mixed : all)
    for (int count : {1, 7, 11, 200})
      for (int way = 0; way < 5; ++way) send_into(mixed, count, way, peer);
}

// The same in device memory, where the host MPI may receive it, if that buffer has no gaps.
RANK_TEST(datatypes, from_device_memory_with_gaps_into_mixed_elements_without, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int tag = 9, count = 20000, bytes = 1 + sizeof(double), apart = 16;
  auto pair_of = [](MPI_Aint place, MPI_Aint extent) {
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {0, place};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Datatype padded, made;
    MUST(MPI_Type_create_struct(2, lengths, places, types, &padded));
    MUST(MPI_Type_create_resized(padded, 0, extent, &made));
    MUST(MPI_Type_commit(&made));
    MUST(MPI_Type_free(&padded));
    return made;
  };
  MPI_Datatype whole = pair_of(1, bytes), spread = pair_of(8, apart);
  std::vector<char> sent(count * bytes);
  write_pattern(key_of(1), sent.data(), sent.size());
  if (rank < peer) {
    std::vector<char> all(count * apart);
    for (int i = 0; i < count; ++i) {
      all[i * apart] = sent[i * bytes];
      std::memcpy(&all[i * apart + 8], &sent[i * bytes + 1], sizeof(double));
    }
    Memory out(Place::device, all.size());
    out.write(all.data(), all.size());
    MUST(MPI_Send(out, count, spread, peer, tag, MPI_COMM_WORLD));
  } else {
    Memory in(Place::device, sent.size());
    MPI_Status status;
    if (MUST(MPI_Recv(in, count, whole, peer, tag, MPI_COMM_WORLD, &status))) {
      EXPECT_STATUS(status, peer, tag, sent.size());
      EXPECT_HOLDS(in, key_of(1), sent.size());
    }
  }
  MUST(MPI_Type_free(&whole));
  MUST(MPI_Type_free(&spread));
}

RANK_TEST(datatypes, pairs_have_gaps, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  struct Pair {
    double value;
    int index;
  };
  constexpr int count = 500;
  std::vector<Pair> pairs(count);
  std::memset(static_cast<void*>(pairs.data()), 0x11, count * sizeof(Pair));
  for (int i = 0; i < count; ++i)
    pairs[static_cast<size_t>(i)].value = i + 0.5, pairs[static_cast<size_t>(i)].index = i;
  Memory buffer(Place::device, count * sizeof(Pair));
  if (rank < peer) {
    buffer.write(pairs.data(), buffer.bytes());
    MUST(MPI_Send(buffer, count, MPI_DOUBLE_INT, peer, tag, MPI_COMM_WORLD));
  } else {
    std::vector<unsigned char> found(buffer.bytes());
    MUST(MPI_Recv(buffer, count, MPI_DOUBLE_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    buffer.read(found.data(), buffer.bytes());
    for (size_t i = 0; i < count; ++i) {
      EXPECT(std::memcmp(&found[i * sizeof(Pair)], &pairs[i], 12) == 0, "pair %zu is wrong", i);
      for (size_t k = 12; k < sizeof(Pair); ++k)
        EXPECT(host_oracle || found[i * sizeof(Pair) + k] == guard_byte, "padding of pair %zu was written",
               i);
    }
  }
}

// One of them may lie in host memory, another one here and there.
RANK_TEST(datatypes, blocks_in_several_allocations, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 5000, blocks = 3;
  for (size_t round = 0; round <= blocks; ++round) {
    const size_t on_host = rank < peer ? round : (round + 1) % (blocks + 1);
    std::vector<Memory> memory;
    std::vector<MPI_Aint> addresses;
    const std::vector<int> lengths(blocks, bytes);
    for (uint64_t i = 0; i < blocks; ++i) {
      memory.emplace_back(i == on_host ? Place::host : Place::device, bytes);
      if (rank < peer) memory.back().fill(key_of(i));
      addresses.emplace_back();
      MUST(MPI_Get_address(memory.back(), &addresses.back()));
    }
    std::swap(addresses[0], addresses[2]);
    MPI_Datatype made;
    MUST(MPI_Type_create_hindexed(blocks, lengths.data(), addresses.data(), MPI_BYTE, &made));
    Type type(made);
    Memory packed(round % 2 ? Place::host : Place::device, blocks * bytes);
    int at = 0;
    if (rank < peer) {
      MUST(MPI_Send(MPI_BOTTOM, 1, type, peer, tag, MPI_COMM_WORLD));
      MUST(MPI_Pack(MPI_BOTTOM, 1, type, packed, blocks * bytes, &at, MPI_COMM_WORLD));
      MUST(MPI_Send(packed, at, MPI_PACKED, peer, tag, MPI_COMM_WORLD));
      continue;
    }
    MUST(MPI_Recv(MPI_BOTTOM, 1, type, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (uint64_t i = 0; i < blocks; ++i) EXPECT_HOLDS(memory[i], key_of(i), bytes);
    for (Memory& block : memory) block.clear();
    MUST(MPI_Recv(packed, blocks * bytes, MPI_PACKED, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MUST(MPI_Unpack(packed, blocks * bytes, &at, MPI_BOTTOM, 1, type, MPI_COMM_WORLD));
    for (uint64_t i = 0; i < blocks; ++i) EXPECT_HOLDS(memory[i], key_of(i), bytes);
  }
}

// Two blocks that a copy engine could take for rows, of which the first is in host memory.
RANK_TEST(datatypes, a_rectangle_from_host_to_device_memory, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 400;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  constexpr uintptr_t apart = 1 << 16, longest = uintptr_t{1} << 30;
  Memory there(Place::device, bytes);
  const uintptr_t behind = reinterpret_cast<uintptr_t>(there.data()) / page * page;
  void* here = MAP_FAILED;
  for (uintptr_t gap = apart; here == MAP_FAILED && gap < longest; gap += apart)
    here = mmap(reinterpret_cast<void*>(behind - gap), page, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  // Where there is no place so near, any will do.
  if (here == MAP_FAILED)
    here = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const int lengths[] = {bytes, bytes};
  MPI_Aint addresses[2];
  MUST(MPI_Get_address(here, &addresses[0]));
  MUST(MPI_Get_address(there, &addresses[1]));
  MPI_Datatype made;
  MUST(MPI_Type_create_hindexed(2, lengths, addresses, MPI_BYTE, &made));
  const Type type(made);
  if (rank < peer) {
    write_pattern(key_of(1), here, bytes);
    there.fill(key_of(2));
    MUST(MPI_Send(MPI_BOTTOM, 1, type, peer, tag, MPI_COMM_WORLD));
  } else {
    std::vector<char> wanted(bytes);
    write_pattern(key_of(1), wanted.data(), bytes);
    MUST(MPI_Recv(MPI_BOTTOM, 1, type, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT(std::equal(wanted.begin(), wanted.end(), static_cast<char*>(here)), "the block in host memory");
    EXPECT_HOLDS(there, key_of(2), bytes);
  }
  munmap(here, page);
}

RANK_TEST(datatypes, long_messages_that_end_anywhere, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Node element, rows, irregular;
  element.bytes = 8, element.extent = element.high = 8;
  rows.kind = Node::Kind::vector, rows.count = 700, rows.block = 3, rows.stride = 40,
  rows.children = {element};
  rows.high = 699 * 40 + 24, rows.extent = rows.high + 8;
  irregular.kind = Node::Kind::list, irregular.one_child = true;
  for (int i = 0; i < 900; ++i) {
    irregular.children.push_back(element);
    irregular.blocks.push_back(1 + static_cast<uint64_t>(i) % 3);
    irregular.offsets.push_back(32 * i + 8 * (i % 2));
  }
  irregular.high = irregular.offsets.back() + 24, irregular.extent = 32 * 900;
  for (const Node* to : {&rows, &irregular})
    for (const Node* from : {&rows, &irregular, &element})
      for (uint64_t bytes : {uint64_t{30000}, uint64_t{300000}, uint64_t{2500000}}) {
        uint64_t from_count = bytes / from->size(), to_count = bytes / to->size() + 2;
        std::mt19937_64 random(bytes);
        Spread out(Place::device, *from, from_count, random), in(Place::device, *to, to_count, random);
        Type out_type(*from), in_type(*to);
        if (rank < peer) {
          MUST(MPI_Send(out.address(), static_cast<int>(from_count), out_type, peer, tag, MPI_COMM_WORLD));
        } else {
          MPI_Status status;
          MUST(MPI_Recv(in.address(), static_cast<int>(to_count), in_type, peer, tag, MPI_COMM_WORLD,
                        &status));
          EXPECT_STATUS(status, peer, tag, out.bytes());
          in.expect(out.packed());
          std::string why;
          EXPECT(in.holds(&why), "%s of a message of %zu bytes", why.c_str(), out.bytes());
        }
      }
}

// There is room for more bytes than int counts; some come.
RANK_TEST(datatypes, long_receives_of_short_messages, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rows = 300000, row_doubles = 1024, rows_that_come = 10;
  MPI_Datatype row, made;
  MUST(MPI_Type_vector(row_doubles, 1, 2, MPI_DOUBLE, &row));
  MUST(MPI_Type_create_resized(row, 0, 2 * row_doubles * sizeof(double), &made));
  MUST(MPI_Type_free(&row));
  Type type(made);
  std::vector<double> values(size_t{2} * row_doubles * rows_that_come, -1.0), found(values.size());
  for (size_t i = 0; i < values.size(); i += 2) values[i] = static_cast<double>(i);
  Memory buffer(Place::device, values.size() * sizeof(double));
  for (Place from : host_and_device)
    if (rank < peer) {
      Memory out(from, values.size() * sizeof(double));
      out.write(values.data(), out.bytes());
      MUST(MPI_Send(out, rows_that_come, type, peer, tag, MPI_COMM_WORLD));
    } else {
      std::fill(found.begin(), found.end(), -1.0);
      buffer.write(found.data(), buffer.bytes());
      MPI_Status status;
      if (!MUST(MPI_Recv(buffer, rows, type, peer, tag, MPI_COMM_WORLD, &status))) continue;
      EXPECT_STATUS(status, peer, tag, sizeof(double) * row_doubles * rows_that_come);
      buffer.read(found.data(), buffer.bytes());
      EXPECT(found == values, "what came from %s memory is wrong", to_string(from));
    }
}

// Memory of the GPU is short: what kernels need to know of an irregular layout lies elsewhere.
RANK_TEST(filled, irregular_layouts_on_a_full_device, 2) {
  if (host_oracle) return skip("no device is filled");
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int blocks = 2000;
  std::vector<int> lengths, displacements, places;
  int ints = 0;
  for (int i = 0; i < blocks; ++i) {
    lengths.push_back(1 + i % 3 + i % 7);
    displacements.push_back(ints += 1 + i % 5);
    for (int k = 0; k < lengths.back(); ++k) places.push_back(ints++);
  }
  MPI_Datatype made;
  MUST(MPI_Type_indexed(blocks, lengths.data(), displacements.data(), MPI_INT, &made));
  Type type(made);
  std::vector<int> content(static_cast<size_t>(ints)), wanted(content.size(), -1), found(content.size());
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<int>(3 * i) + rank;
  for (int place : places) wanted[static_cast<size_t>(place)] = 3 * place + peer;
  Memory out(Place::device, content.size() * sizeof(int)), in(Place::device, out.bytes());
  out.write(content.data(), out.bytes());
  std::fill(found.begin(), found.end(), -1);
  in.write(found.data(), in.bytes());
  std::vector<void*> filling;
  for (size_t bytes = size_t{1} << 30; bytes >= 256; bytes /= 2)
    for (void* piece = nullptr; fairlead_device_malloc(&piece, bytes) == 0;) filling.push_back(piece);
  MUST(MPI_Sendrecv(out, 1, type, peer, tag, in, 1, type, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  for (void* piece : filling) fairlead_device_free(piece);
  in.read(found.data(), in.bytes());
  EXPECT(found == wanted, "received wrong");
}

// Packed bytes are those of a message, wherever either buffer lies; so is what the host MPI packs beside
// them.
RANK_TEST(datatypes, packing_and_unpacking, 1) {
  for (uint64_t round = 0; round < 60; ++round) {
    Generator plan(options.seed + round, false, false);
    const Node node = plan.make(static_cast<int>(plan.pick(0, 4)));
    if (node.size() == 0) continue;
    const uint64_t count = 1 + plan.pick(0, 3000 / node.size());
    const int elements = static_cast<int>(count);
    std::mt19937_64 random(options.seed + round);
    if (node.span(count) > longest_span || (host_oracle && !host_mpi_moves(node))) continue;
    // Between two host buffers Fairlead has no part.
    const Place spread = plan.pick(0, 2) ? Place::device : Place::host;
    const Place places[] = {spread, plan.pick(0, 2) || spread == Place::host ? Place::device : Place::host};
    Spread out(places[0], node, count, random), in(places[0], node, count, random);
    Type type(node);
    const size_t bytes = out.bytes();
    Memory packed(places[1], bytes + 7);
    const int room = static_cast<int>(packed.bytes());
    int position = 3, needed = 0;
    MUST(MPI_Pack_size(elements, type, MPI_COMM_SELF, &needed));
    EXPECT(static_cast<size_t>(needed) >= bytes, "%d bytes are not enough for %zu", needed, bytes);
    MUST(MPI_Pack(out.address(), elements, type, packed, room, &position, MPI_COMM_SELF));
    EXPECT(static_cast<size_t>(position) == bytes + 3, "the position is %d after %zu bytes", position, bytes);
    std::vector<char> wanted(bytes + 3, static_cast<char>(guard_byte));
    const std::vector<char> message = out.packed();
    std::copy(message.begin(), message.end(), wanted.begin() + 3);
    std::string why;
    EXPECT(packed.holds(wanted, &why), "seed %llu: packed wrong: %s",
           static_cast<unsigned long long>(options.seed + round), why.c_str());
    position = 3;
    MUST(MPI_Unpack(packed, room, &position, in.address(), elements, type, MPI_COMM_SELF));
    EXPECT(static_cast<size_t>(position) == bytes + 3, "the position is %d after %zu bytes", position, bytes);
    in.expect(message);
    EXPECT(in.holds(&why), "seed %llu: unpacked wrong: %s",
           static_cast<unsigned long long>(options.seed + round), why.c_str());
  }
}
