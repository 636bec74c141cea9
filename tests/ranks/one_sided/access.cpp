// SPDX-License-Identifier: Apache-2.0
//
// What accesses do: random layouts put into and got from windows, every predefined operation on every type,
// the order of one rank's accumulates, and no lost update where all ranks change one place.

#include <algorithm>
#include <numeric>
#include <random>

#include "collectives/operations.h"
#include "harness/exposed.h"
#include "harness/laid_out.h"
#include "harness/rounds.h"

using namespace ranks;
using coll::Operation;
using random_layout::Generator;

namespace {

int next() {
  return (rank + 1) % size;
}
int previous() {
  return (rank + size - 1) % size;
}

// All ranks make the same layouts; each puts into the next one and gets it back in a third layout.
void put_and_get(uint64_t seed) {
  Generator plan(seed, false, false);
  const uint64_t room = plan.pick(0, 5) == 0 ? 4000 : 200;
  const Node target = plan.make(static_cast<int>(plan.pick(0, 5)), room),
             origin = plan.make(static_cast<int>(plan.pick(0, 5)), room);
  if (target.size() == 0 || origin.size() == 0) return;
  // As many bytes in both.
  const uint64_t target_count = origin.size() / std::gcd(origin.size(), target.size());
  const uint64_t origin_count = target.size() / std::gcd(origin.size(), target.size());
  if (target_count * target.size() > 200000) return;
  if (target.span(target_count) > longest_span || origin.span(origin_count) > longest_span) return;
  // With device memory somewhere, all targets are Fairlead's.
  const Place target_place = plan.pick(0, 3) || rank == 0 ? Place::device : Place::host;
  const Place origin_place = plan.pick(0, 3) || !host_mpi_moves(origin) ? Place::device : Place::host;
  const bool locks = plan.pick(0, 1) != 0;
  std::mt19937_64 random(seed);
  Spread exposed(target_place, target, target_count, random),
      mine(origin_place, origin, origin_count, random);
  std::mt19937_64 others(seed * 31 + static_cast<uint64_t>(rank));
  Spread back(origin_place, origin, origin_count, others);
  if (exposed.origin() < 0) return;  // no displacement may be negative
  const Type target_type(target), origin_type(origin);
  MPI_Win window;
  MUST(MPI_Win_create(exposed.memory().data(), static_cast<MPI_Aint>(exposed.memory().bytes()), 1,
                      MPI_INFO_NULL, MPI_COMM_WORLD, &window));
  const auto put = [&](Spread& from) {
    MUST(MPI_Put(from.address(), static_cast<int>(origin_count), origin_type, next(), exposed.origin(),
                 static_cast<int>(target_count), target_type, window));
  };
  const auto get = [&](Spread& to) {
    MUST(MPI_Get(to.address(), static_cast<int>(origin_count), origin_type, next(), exposed.origin(),
                 static_cast<int>(target_count), target_type, window));
  };
  if (locks) {
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next(), 0, window));
    put(mine);
    MUST(MPI_Win_flush(next(), window));
    get(back);
    MUST(MPI_Win_unlock(next(), window));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  } else {
    MUST(MPI_Win_fence(0, window));
    put(mine);
    MUST(MPI_Win_fence(0, window));
    get(back);
    MUST(MPI_Win_fence(0, window));
  }
  const std::vector<char> message = mine.packed();
  exposed.expect(message);
  back.expect(message);
  std::string why;
  EXPECT(exposed.holds(&why), "%s: put %llu of %s in %s memory to %llu of %s in %s memory", why.c_str(),
         static_cast<unsigned long long>(origin_count), origin.text().c_str(), to_string(origin_place),
         static_cast<unsigned long long>(target_count), target.text().c_str(), to_string(target_place));
  EXPECT(back.holds(&why), "%s: got %s in %s memory back into %s in %s memory", why.c_str(),
         target.text().c_str(), to_string(target_place), origin.text().c_str(), to_string(origin_place));
  MUST(MPI_Win_free(&window));
}

std::vector<unsigned char> contribution(const Operation& operation, int count, uint64_t key) {
  std::vector<unsigned char> values(static_cast<size_t>(count) * operation.bytes);
  for (int i = 0; i < count; ++i)
    operation.make(key_of(key, static_cast<uint64_t>(i)),
                   values.data() + static_cast<size_t>(i) * operation.bytes);
  return values;
}

void fold(const Operation& operation, std::vector<unsigned char>* into,
          const std::vector<unsigned char>& from) {
  for (size_t at = 0; at < into->size(); at += operation.bytes)
    operation.fold(into->data() + at, from.data() + at);
}

void expect_same(const Operation& operation, const Memory& found, MPI_Aint begin,
                 const std::vector<unsigned char>& wanted, const char* what) {
  std::vector<unsigned char> values(wanted.size());
  found.read(values.data(), values.size(), static_cast<size_t>(begin));
  for (size_t at = 0; at < wanted.size(); at += operation.bytes) {
    if (operation.same(values.data() + at, wanted.data() + at)) continue;
    EXPECT(false, "%s: element %zu of %s is wrong", operation.name.c_str(), at / operation.bytes, what);
    return;
  }
}

}  // namespace

RANK_TEST(rma, random_layouts_put_and_get, 1) {
  // Open MPI 4.1 and MPICH 4.0 fail for some of them.
  if (host_oracle) return;
  repeat("rma", options.seconds / 2, put_and_get);
}

// All ranks accumulate into all, then each fetches from the next one. Each operation has a place of its own.
RANK_TEST(rma, every_operation_on_every_type, 1) {
  constexpr int count = 33;
  struct Part {
    Operation operation;
    MPI_Aint at;
    Memory mine, old;
    std::vector<unsigned char> first, wanted;
  };
  std::vector<Part> parts;
  MPI_Aint bytes = 0;
  for (const Operation& operation : coll::predefined_operations()) {
#ifdef OPEN_MPI
    // Open MPI 4.1 itself is wrong about pairs with padding between them.
    if (host_oracle && (operation.op == MPI_MINLOC || operation.op == MPI_MAXLOC)) continue;
#endif
    const Place origin = host_and_device[parts.size() % 2];
    Part& part = parts.emplace_back();
    part.operation = operation;
    part.at = bytes;
    part.first = contribution(operation, count, 1);
    part.mine = memory_of(origin, contribution(operation, count, 10 + static_cast<uint64_t>(rank)));
    part.old = memory_of(origin, part.first);  // padding between members is nobody's to write
    part.wanted = part.first;
    for (int from = 0; from < size; ++from)
      fold(operation, &part.wanted, contribution(operation, count, 10 + static_cast<uint64_t>(from)));
    bytes += (static_cast<MPI_Aint>(part.first.size()) + 15) / 16 * 16;
  }
  Exposed exposed(Place::device, static_cast<size_t>(bytes));
  for (const Part& part : parts)
    exposed.memory().write(part.first.data(), part.first.size(), static_cast<size_t>(part.at));
  MUST(MPI_Win_fence(0, exposed));
  for (const auto& [operation, at, mine, old, first, wanted] : parts)
    for (int target = 0; target < size; ++target)
      MUST(MPI_Accumulate(mine, count, operation.type, target, at, count, operation.type, operation.op,
                          exposed));
  MUST(MPI_Win_fence(0, exposed));
  for (const Part& part : parts)
    expect_same(part.operation, exposed.memory(), part.at, part.wanted, "the target");
  MUST(MPI_Win_fence(0, exposed));
  for (const auto& [operation, at, mine, old, first, wanted] : parts)
    MUST(MPI_Get_accumulate(mine, count, operation.type, old, count, operation.type, next(), at, count,
                            operation.type, operation.op, exposed));
  MUST(MPI_Win_fence(0, exposed));
  for (Part& part : parts) {
    expect_same(part.operation, part.old, 0, part.wanted, "what was fetched");
    fold(part.operation, &part.wanted,
         contribution(part.operation, count, 10 + static_cast<uint64_t>(previous())));
    expect_same(part.operation, exposed.memory(), part.at, part.wanted, "the target after a fetch");
  }
}

RANK_TEST(rma, accumulates_of_columns, 1) {
  constexpr int rows = 200, columns = 3;
  MPI_Datatype column;
  MUST(MPI_Type_vector(rows, 1, columns, MPI_LONG, &column));
  MUST(MPI_Type_commit(&column));
  for (Place target : host_and_device) {
    for (Place origin : host_and_device) {
      // With device memory somewhere, all targets are Fairlead's; Open MPI 4.1 takes long for its own.
      Exposed exposed(rank == 0 ? Place::device : target, rows * columns * sizeof(long), sizeof(long));
      exposed.fill_with(7L);
      const Memory mine = memory_of(origin, std::vector<long>(rows * columns, rank + 1));
      const Memory dense = memory_of(origin, std::vector<long>(rows, 100 * (rank + 1)));
      Memory old(origin, rows * sizeof(long));
      MUST(MPI_Win_fence(0, exposed));
      for (int to = 0; to < size; ++to) {
        MUST(MPI_Accumulate(mine, 1, column, to, 1, 1, column, MPI_SUM, exposed));
        MUST(MPI_Accumulate(dense, rows, MPI_LONG, to, 1, 1, column, MPI_SUM, exposed));
      }
      MUST(MPI_Win_fence(0, exposed));
      const long sum = 7 + 101L * size * (size + 1) / 2;
      const std::vector<long> found = exposed.values<long>();
      for (int i = 0; i < rows * columns; ++i) {
        const long wanted = i % columns == 1 ? sum : 7;
        EXPECT(found[static_cast<size_t>(i)] == wanted, "%s to %s: element %d is %ld, not %ld",
               to_string(origin), to_string(target), i, found[static_cast<size_t>(i)], wanted);
        if (found[static_cast<size_t>(i)] != wanted) break;
      }
      MUST(MPI_Barrier(MPI_COMM_WORLD));
      MUST(MPI_Win_fence(0, exposed));
      MUST(MPI_Get_accumulate(nullptr, 0, MPI_LONG, old, rows, MPI_LONG, next(), 1, 1, column, MPI_NO_OP,
                              exposed));
      MUST(MPI_Win_fence(0, exposed));
      EXPECT(value_in<long>(old, rows - 1) == sum, "read %ld, not %ld", value_in<long>(old, rows - 1), sum);
      MUST(MPI_Win_fence(0, exposed));
      MUST(MPI_Accumulate(dense, rows, MPI_LONG, next(), 1, 1, column, MPI_REPLACE, exposed));
      MUST(MPI_Win_fence(0, exposed));
      EXPECT(exposed.values<long>()[1] == 100L * (previous() + 1), "replaced by %ld",
             exposed.values<long>()[1]);
    }
  }
  MUST(MPI_Type_free(&column));
}

// Parts of a structure without bytes say nothing of its elements.
RANK_TEST(rma, accumulates_of_structures_with_empty_parts, 1) {
  // Open MPI 4.1 and MPICH 4.0 fail themselves.
  if (host_oracle) return;
  MPI_Datatype nothing;
  MUST(MPI_Type_contiguous(0, MPI_SHORT, &nothing));
  const int lengths[] = {0, 1, 3};
  const MPI_Aint places[] = {0, 0, sizeof(int)};
  const MPI_Datatype parts[] = {MPI_DOUBLE, nothing, MPI_INT};
  MPI_Datatype made;
  MUST(MPI_Type_create_struct(3, lengths, places, parts, &made));
  const Type three(made);
  Exposed exposed(Place::device, 4 * sizeof(int), sizeof(int));
  exposed.fill_with(7);
  const Memory mine = memory_of(Place::host, std::vector<int>{100, 200, 300});
  MUST(MPI_Win_fence(0, exposed));
  MUST(MPI_Accumulate(mine, 3, MPI_INT, next(), 0, 1, three, MPI_SUM, exposed));
  MUST(MPI_Win_fence(0, exposed));
  const std::vector<int> found = exposed.values<int>(), wanted{7, 107, 207, 307};
  EXPECT(found == wanted, "added to %d, %d and %d", found[1], found[2], found[3]);
  MUST(MPI_Type_free(&nothing));
}

// Of one origin to one place, accumulates happen in the order of the calls.
RANK_TEST(rma, accumulates_keep_their_order, 1) {
  constexpr int rounds = 30;
  Exposed exposed(Place::device, static_cast<size_t>(size) * sizeof(long), sizeof(long));
  exposed.fill_with(0L);
  std::vector<Memory> values, fetched;
  for (int i = 0; i < rounds; ++i) {
    values.push_back(memory_of(i % 2 ? Place::device : Place::host, std::vector<long>{i + 1}));
    fetched.emplace_back(i % 3 ? Place::device : Place::host, sizeof(long));
  }
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  MUST(MPI_Win_lock_all(0, exposed));
  for (int i = 0; i < rounds; ++i)
    MUST(MPI_Get_accumulate(values[static_cast<size_t>(i)], 1, MPI_LONG, fetched[static_cast<size_t>(i)], 1,
                            MPI_LONG, next(), rank, 1, MPI_LONG, i % 2 ? MPI_SUM : MPI_REPLACE, exposed));
  MUST(MPI_Win_unlock_all(exposed));
  long wanted = 0;
  for (int i = 0; i < rounds; ++i) {
    const long found = value_in<long>(fetched[static_cast<size_t>(i)]);
    EXPECT(found == wanted, "access %d fetched %ld, not %ld", i, found, wanted);
    wanted = i % 2 ? wanted + i + 1 : i + 1;
  }
  MUST(MPI_Barrier(MPI_COMM_WORLD));
}

RANK_TEST(rma, no_update_is_lost, 2) {
  constexpr long rounds = 60;
  for (Place place : host_and_device) {
    Exposed exposed(Place::device, 3 * sizeof(long), sizeof(long));
    exposed.fill_with(0L);
    const Memory one = memory_of(place, std::vector<long>{1}),
                 sixteen = memory_of(place, std::vector<long>{16});
    Memory old(place, sizeof(long));
    std::vector<long> tickets;
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Win_lock_all(0, exposed));
    for (long i = 0; i < rounds; ++i) {
      MUST(MPI_Fetch_and_op(one, old, MPI_LONG, 0, 0, MPI_SUM, exposed));
      MUST(MPI_Win_flush(0, exposed));
      tickets.push_back(value_in<long>(old));
      MUST(MPI_Accumulate(sixteen, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, exposed));
    }
    // A counter by compare and swap. Open MPI 4.1 itself crashes where a rank swaps in its own memory.
#ifdef OPEN_MPI
    const bool first_swaps = !host_oracle;
#else
    const bool first_swaps = true;
#endif
    const long swaps = rank > 0 || first_swaps ? rounds / 6 : 0;
    const long all_swaps = rounds / 6 * (first_swaps ? size : size - 1);
    for (long i = 0; i < swaps; ++i) {
      long seen = 0;
      for (bool swapped = false; !swapped;) {
        const Memory compare = memory_of(place, std::vector<long>{seen}),
                     wanted = memory_of(place, std::vector<long>{seen + 1});
        MUST(MPI_Compare_and_swap(wanted, compare, old, MPI_LONG, 0, 2, exposed));
        MUST(MPI_Win_flush(0, exposed));
        swapped = value_in<long>(old) == seen;
        seen = value_in<long>(old);
      }
    }
    MUST(MPI_Win_unlock_all(exposed));
    EXPECT(std::is_sorted(tickets.begin(), tickets.end()), "tickets of one rank go down");
    std::vector<long> all(static_cast<size_t>(rounds * size));
    MUST(MPI_Allgather(tickets.data(), rounds, MPI_LONG, all.data(), rounds, MPI_LONG, MPI_COMM_WORLD));
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT(all[i] == static_cast<long>(i), "ticket %zu is %ld", i, all[i]);
      if (all[i] != static_cast<long>(i)) break;
    }
    if (rank == 0) {
      const std::vector<long> found = exposed.values<long>();
      EXPECT(found[0] == rounds * size && found[1] == 16 * rounds * size && found[2] == all_swaps,
             "the counters are %ld, %ld and %ld", found[0], found[1], found[2]);
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
}

RANK_TEST(rma, operations_that_mpi_does_not_allow_are_errors, 1) {
  if (host_oracle) return;
  Exposed exposed(Place::device, 64);
  Memory buffer(Place::device, 64);
  MUST(MPI_Win_fence(0, exposed));
  EXPECT_ERROR(MPI_Accumulate(buffer, 1, MPI_DOUBLE, rank, 0, 1, MPI_DOUBLE, MPI_BAND, exposed), MPI_ERR_OP);
  EXPECT_ERROR(MPI_Accumulate(buffer, 1, MPI_DOUBLE, rank, 0, 1, MPI_INT, MPI_SUM, exposed), MPI_ERR_TYPE);
  EXPECT_ERROR(MPI_Put(buffer, -1, MPI_INT, rank, 0, 1, MPI_INT, exposed), MPI_ERR_COUNT);
  MUST(MPI_Win_fence(0, exposed));
}
