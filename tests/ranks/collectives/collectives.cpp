// SPDX-License-Identifier: Apache-2.0
//
// Every blocking collective gives every rank the bytes that the standard says, wherever each rank's buffers
// lie: all on the device, all on the host, any mixture; from every root, in place, for counts from nothing to
// megabytes, with irregular counts, gaps between blocks and datatypes with gaps.

#include <algorithm>

#include "collectives/exercise.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

// Bytes of a block.
constexpr int small_blocks[] = {0, 1, 37, 4097};
constexpr int large_block = 100003;
constexpr int largest_block = 3 << 20;

int items(int bytes, Types types) {
  const int item = types == Types::bytes ? 1 : types == Types::integers ? 4 : 12;
  return bytes < item ? bytes : bytes / item;
}

Plan plan_of(Kind kind, int root, int bytes, bool in_place, Places places, uint64_t salt) {
  Plan plan;
  plan.kind = kind;
  plan.root = root;
  plan.in_place = in_place;
  plan.places = places;
  plan.key = key_of(options.seed, static_cast<uint64_t>(kind) * 100 + salt, static_cast<uint64_t>(bytes));
  plan.types = static_cast<Types>(plan.key % types_count);
  plan.count = items(bytes, is_reduction(kind) ? Types::integers : plan.types);
  return plan;
}

template <class Body>
void for_each_kind(Body body) {
  for (int kind = 0; kind < kind_count; ++kind)
    if (!is_neighborhood(static_cast<Kind>(kind))) body(static_cast<Kind>(kind));
}

// All roots and both values of in_place, where they make a difference; `salt` tells the plans apart.
template <class Body>
void for_each_variant(Kind kind, Body body) {
  uint64_t salt = 0;
  for (int root = 0; root < (is_rooted(kind) ? size : 1); ++root)
    for (bool in_place : {false, true})
      if (!in_place || may_be_in_place(kind)) body(root, in_place, ++salt);
}

constexpr Places all_mixtures[] = {
    Places::device,
    Places::host,
    Places::root_is_host,
    Places::root_is_device,
    Places::odd_ranks_are_host,
    Places::sends_are_host,
    Places::receives_are_host,
    Places::devices_differ,
    Places::any,
};
static_assert(std::size(all_mixtures) == places_count);

}  // namespace

RANK_TEST(collectives, on_device_buffers_from_every_root_and_in_place, 1) {
  const Team world(MPI_COMM_WORLD);
  for_each_kind([&](Kind kind) {
    for_each_variant(kind, [&](int root, bool in_place, uint64_t salt) {
      for (int bytes : small_blocks) run(world, plan_of(kind, root, bytes, in_place, Places::device, salt));
    });
  });
}

RANK_TEST(collectives, whatever_the_places_of_the_buffers, 1) {
  const Team world(MPI_COMM_WORLD);
  for_each_kind([&](Kind kind) {
    for (Places places : all_mixtures) {
      // Of roots and sizes each mixture gets one of the seed's choice.
      const uint64_t dice = key_of(options.seed, static_cast<uint64_t>(kind), static_cast<uint64_t>(places));
      const int chosen = static_cast<int>(dice % static_cast<uint64_t>(size));
      for_each_variant(kind, [&](int root, bool in_place, uint64_t salt) {
        if (is_rooted(kind) && root != chosen) return;
        const int bytes = small_blocks[(dice + salt) % std::size(small_blocks)];
        run(world, plan_of(kind, root, bytes, in_place, places, salt + 20));
      });
    }
  });
}

RANK_TEST(collectives, of_large_buffers, 1) {
  const Team world(MPI_COMM_WORLD);
  for_each_kind([&](Kind kind) {
    const auto last = static_cast<uint64_t>(size - 1);
    const Places mixture = static_cast<int>(kind) % 2 ? Places::any : Places::odd_ranks_are_host;
    for (Places places : {Places::device, mixture})
      run(world, plan_of(kind, size - 1, large_block, places == Places::any, places, last + 60));
  });
  for (Kind kind :
       {Kind::bcast, Kind::allreduce, Kind::allgather, Kind::alltoall, Kind::reduce_scatter_block}) {
    Plan plan = plan_of(kind, 0, largest_block, false, Places::device, 80);
    plan.types = Types::integers;
    plan.count = items(largest_block, plan.types);
    run(world, plan);
  }
}

// Not a byte beside the message changes; those bytes differ between ranks, so that a copy of them shows.
RANK_TEST(collectives, broadcast_at_any_alignment, 2) {
  constexpr size_t bytes = 100003, room = bytes + 64;
  for (int root = 0; root < size; ++root) {
    for (int each = 0; each < 4; ++each) {
      // The offset is that of this rank; in the first round all are aligned.
      const size_t unit = each > 0 ? size_t{1} << (each - 1) * 2 : 32;
      const uint64_t dice =
          key_of(options.seed, static_cast<uint64_t>(4 * root + each), static_cast<uint64_t>(rank));
      const size_t offset = dice % (32 / unit) * unit;
      std::vector<char> values(room, static_cast<char>(rank)), wanted = values;
      write_pattern(key_of(static_cast<uint64_t>(root)), wanted.data() + offset, bytes);
      Memory memory(Place::device, room);
      memory.write(rank == root ? wanted.data() : values.data(), room);
      MUST(MPI_Bcast(memory.data() + offset, bytes, MPI_BYTE, root, MPI_COMM_WORLD));
      memory.read(values.data(), room);
      EXPECT(values == wanted, "root %d, offset %zu: other bytes than expected", root, offset);
    }
  }
}

RANK_TEST(collectives, allgather_at_any_alignment, 2) {
  constexpr int count = 33333;
  const auto unit = static_cast<size_t>(count), bytes = unit * static_cast<size_t>(size), room = bytes + 64;
  for (int each = 0; each < 8; ++each) {
    const bool in_place = each % 2 == 1;
    // That of this rank; in the first rounds all are aligned.
    const size_t offset =
        each > 1 ? key_of(options.seed, static_cast<uint64_t>(each), static_cast<uint64_t>(rank)) % 32 : 0;
    std::vector<char> values(room, static_cast<char>(rank)), wanted = values;
    for (int from = 0; from < size; ++from)
      write_pattern(key_of(static_cast<uint64_t>(each), static_cast<uint64_t>(from)),
                    wanted.data() + offset + static_cast<size_t>(from) * unit, unit);
    const size_t own = static_cast<size_t>(rank) * unit;
    Memory memory(Place::device, room), block(Place::device, unit);
    block.write(wanted.data() + offset + own, unit);
    if (in_place) std::copy_n(wanted.data() + offset + own, unit, values.data() + offset + own);
    memory.write(values.data(), room);
    MUST(MPI_Allgather(in_place ? MPI_IN_PLACE : static_cast<void*>(block), count, MPI_BYTE,
                       memory.data() + offset, count, MPI_BYTE, MPI_COMM_WORLD));
    memory.read(values.data(), room);
    EXPECT(values == wanted, "round %d, offset %zu: other bytes than expected", each, offset);
  }
}

// An error of the program, for which each MPI returns what it likes, but no rank loses bytes behind its
// buffer.
RANK_TEST(unequal, M3_a_rank_that_expects_more_harms_no_other, 3) {
  constexpr size_t sent = 300000, room = 4 * sent;
  const size_t expected = rank == size - 1 ? 2 * sent : sent;
  const std::vector<char> before(room, static_cast<char>(rank + 1));
  std::vector<char> after(room);
  Memory memory(Place::device, room);
  memory.write(before.data(), room);
  MPI_Comm comm;  // of its own: what the host MPI has not received stays there
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  (void)MPI_Bcast(memory.data(), static_cast<int>(expected), MPI_BYTE, 0, comm);
  MUST(MPI_Comm_free(&comm));
  memory.read(after.data(), room);
  const auto [was, is] = std::mismatch(before.begin() + static_cast<ptrdiff_t>(expected), before.end(),
                                       after.begin() + static_cast<ptrdiff_t>(expected));
  EXPECT(was == before.end(), "byte %td changed, behind a buffer of %zu", is - after.begin(), expected);
}

// The _c forms of MPI 4.
RANK_TEST(collectives, with_large_counts, 1) {
  if (!exists(Kind::bcast, Form::large)) return skip("the MPI has no functions with large counts");
  const Team world(MPI_COMM_WORLD);
  for_each_kind([&](Kind kind) {
    if (!exists(kind, Form::large)) return;
    for (Places places : {Places::device, Places::odd_ranks_are_host})
      for_each_variant(kind, [&](int root, bool in_place, uint64_t salt) {
        run(world, plan_of(kind, root, 1001, in_place, places, salt + 100), Form::large);
      });
  });
}

RANK_TEST(collectives, reduce_local, 1) {
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      for (int count : {0, 1, 33, 25000}) {
        std::vector<long> ours(static_cast<size_t>(count)), theirs(ours), sum(ours);
        for (size_t i = 0; i < ours.size(); ++i) {
          ours[i] = static_cast<long>(key_of(i, 1) % 100000);
          theirs[i] = -static_cast<long>(key_of(i, 2) % 100000);
          sum[i] = ours[i] + theirs[i];
        }
        const size_t bytes = ours.size() * sizeof(long);
        Memory in(from, bytes), inout(to, bytes);
        in.write(ours.data(), bytes);
        inout.write(theirs.data(), bytes);
        if (!MUST(MPI_Reduce_local(in, inout, count, MPI_LONG, MPI_SUM))) continue;
        const auto as_bytes = [](const std::vector<long>& values) {
          const char* first = reinterpret_cast<const char*>(values.data());
          return std::vector<char>(first, first + values.size() * sizeof(long));
        };
        std::string why;
        EXPECT(in.holds(as_bytes(ours), &why), "the input of Reduce_local changed: %s", why.c_str());
        EXPECT(inout.holds(as_bytes(sum), &why), "Reduce_local: %s", why.c_str());
      }
    }
  }
}

// Null pointers where nothing is sent or received, by every function that takes a buffer.
RANK_TEST(collectives, of_nothing_at_null, 1) {
  const Team world(MPI_COMM_WORLD);
  for_each_kind([&](Kind kind) {
    for (uint64_t salt = 0; salt < 4; ++salt) {
      Plan plan = plan_of(kind, static_cast<int>(salt) % size, 0, false, Places::device, salt + 200);
      run(world, plan);
    }
  });
}

// The first rank has nothing before it: its buffer stays as it is, also where the others make all stage.
RANK_TEST(collectives, exscan_leaves_the_first_rank_alone, 2) {
  for (Place others : host_and_device) {
    std::vector<int> in(1000, rank + 1), before(in.size(), -7), wanted(in.size(), rank * (rank + 1) / 2);
    const size_t bytes = in.size() * sizeof(int);
    Memory from(rank == 0 ? Place::device : others, bytes), to(rank == 0 ? Place::device : others, bytes);
    from.write(in.data(), bytes);
    to.write(before.data(), bytes);
    MUST(MPI_Exscan(from, to, 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    std::vector<int> after(in.size());
    to.read(after.data(), bytes);
    EXPECT(after == (rank == 0 ? before : wanted), "the result of Exscan begins with %d", after[0]);
  }
}

RANK_TEST(collectives, in_place_name_no_type, 1) {
  std::vector<int> all(3000 * static_cast<size_t>(size), -1), wanted(all);
  for (size_t i = 0; i < all.size(); ++i) wanted[i] = static_cast<int>(i);
  const size_t mine = 3000 * static_cast<size_t>(rank);
  std::copy_n(&wanted[mine], 3000, &all[mine]);
  Memory memory(Place::device, all.size() * sizeof(int));
  memory.write(all.data(), memory.bytes());
  MUST(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, memory, 3000, MPI_INT, MPI_COMM_WORLD));
  memory.read(all.data(), memory.bytes());
  EXPECT(all == wanted, "Allgather in place, with no type, is wrong");
}

RANK_TEST(collectives, of_a_root_that_is_not_there, 1) {
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  Memory in(Place::device, sizeof(int)), out(Place::device, sizeof(int));
  for (int root : {size, -5}) {
    EXPECT_ERROR(MPI_Bcast(in, 1, MPI_INT, root, comm), MPI_ERR_ROOT);
    EXPECT_ERROR(MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, root, comm), MPI_ERR_ROOT);
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_ERROR(MPI_Ibcast(in, 1, MPI_INT, root, comm, &request), MPI_ERR_ROOT);
  }
  MUST(MPI_Comm_free(&comm));
}
