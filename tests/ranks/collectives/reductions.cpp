// SPDX-License-Identifier: Apache-2.0
//
// Reductions give exact results for every predefined operation on every predefined type, also on types that
// no GPU has; a sum of floating-point numbers is the same to the last bit on all ranks; operations of the
// user are called with addresses that the host may use, in the order of ranks where the order matters.

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "collectives/operations.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

constexpr Kind kinds[] = {Kind::reduce, Kind::allreduce,      Kind::scan,
                          Kind::exscan, Kind::reduce_scatter, Kind::reduce_scatter_block};
constexpr int counts[] = {1, 3, 7, 300};

// A reduction of the seed's choice; on some ranks one buffer is host memory.
Reduction any_reduction(Kind kind, MPI_Comm comm, int count, uint64_t salt) {
  const uint64_t key = key_of(options.seed, static_cast<uint64_t>(kind), salt);
  const bool mixed = key % 4 == 0;
  const auto place = [&](uint64_t end) {
    return mixed && key_of(key, static_cast<uint64_t>(rank), end) % 2 == 0 ? Place::host : Place::device;
  };
  // In place at another root than 0, MPICH 4.0.2 crashes.
  const bool in_place = key / 4 % 3 == 0;
  const int root = in_place ? 0 : static_cast<int>(key / 16 % static_cast<uint64_t>(size));
  return {kind, comm, root, count, in_place, place(1), place(2), key};
}

// Can the host read there, and write?
bool is_host_memory(void* address, int bytes) {
  int ends[2];
  if (pipe(ends) != 0) give_up("cannot make a pipe");
  bool good = true;
  for (char* byte : {static_cast<char*>(address), static_cast<char*>(address) + bytes - 1})
    good = good && write(ends[1], byte, 1) == 1 && read(ends[0], byte, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return good;
}

// ---- Operations of the user ---------------------------------------------------------------------------

struct Matrix {
  uint32_t a, b, c, d;
};

Matrix times(Matrix x, Matrix y) {
  return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
}

// A sum that remembers the largest operand, in a type with a gap.
struct Tally {
  short largest;
  int untouched;  // no part of the datatype
  double sum;
};

Tally plus(Tally x, Tally y) {
  return {std::max(x.largest, y.largest), x.untouched, x.sum + y.sum};
}

int calls = 0;

template <class T, T combine(T, T)>
void user_function(void* in, void* inout, int* count, MPI_Datatype*) {
  ++calls;
  if (*count <= 0) return;
  const int bytes = *count * static_cast<int>(sizeof(T));
  // The last one may end where its data ends.
  const int reach = bytes - static_cast<int>(sizeof(T)) + 1;
  const bool reachable = is_host_memory(in, reach) && is_host_memory(inout, reach);
  EXPECT(reachable, "a user's operation is called with addresses that are not the host's");
  if (!reachable) return;
  T* to = static_cast<T*>(inout);
  const T* from = static_cast<const T*>(in);
  for (int i = 0; i < *count; ++i) {
    T combined = combine(from[i], to[i]);
    if constexpr (requires { combined.untouched; }) combined.untouched = to[i].untouched;
    to[i] = combined;
  }
}

void make_matrix(uint64_t dice, void* element) {
  const Matrix matrix = {static_cast<uint32_t>(dice), static_cast<uint32_t>(dice >> 8),
                         static_cast<uint32_t>(dice >> 16), static_cast<uint32_t>(dice >> 32)};
  memcpy(element, &matrix, sizeof(matrix));
}

void make_tally(uint64_t dice, void* element) {
  memset(element, 0, sizeof(Tally));
  const Tally tally = {static_cast<short>(dice % 1000), 0, static_cast<double>(dice / 1000 % 1000)};
  memcpy(element, &tally, sizeof(tally));
}

template <class T, T combine(T, T)>
void fold(void* into, const void* from) {
  T a, b;
  memcpy(&a, into, sizeof(T));
  memcpy(&b, from, sizeof(T));
  a = combine(a, b);
  memcpy(into, &a, sizeof(T));
}

bool same_matrix(const void* one, const void* two) {
  return memcmp(one, two, sizeof(Matrix)) == 0;
}

bool same_tally(const void* one, const void* two) {
  Tally a, b;
  memcpy(&a, one, sizeof(a));
  memcpy(&b, two, sizeof(b));
  return a.largest == b.largest && a.sum == b.sum;
}

void check_everywhere(const Operation& operation, MPI_Comm comm) {
  calls = 0;
  for (Kind kind : kinds)
    for (int count : {0, 1, 7, 3000})
      for (uint64_t salt = 0; salt < 3; ++salt)
        check_reduction(operation,
                        any_reduction(kind, comm, count, key_of(salt, static_cast<uint64_t>(count))));
  if (size > 1) EXPECT(calls > 0, "%s was never called", operation.name.c_str());
  for (Place from : host_and_device)
    for (Place to : host_and_device) check_reduce_local(operation, 77, from, to, options.seed);
}

template <class T>
void expect_equal_bits(MPI_Datatype type, int count, Place place, uint64_t salt) {
  std::vector<T> mine(static_cast<size_t>(count)), sum(mine);
  for (size_t i = 0; i < mine.size(); ++i) {
    const uint64_t dice = key_of(options.seed + salt, static_cast<uint64_t>(rank), i);
    mine[i] = static_cast<T>(static_cast<int64_t>(dice)) / static_cast<T>(1 + dice % 1000003);
  }
  const size_t bytes = mine.size() * sizeof(T);
  Memory send(place, bytes), receive(place, bytes);
  send.write(mine.data(), bytes);
  if (!MUST(MPI_Allreduce(send, receive, count, type, MPI_SUM, MPI_COMM_WORLD))) return;
  receive.read(sum.data(), bytes);
  std::vector<T> of_first = sum;
  MUST(MPI_Bcast(of_first.data(), static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD));
  EXPECT(memcmp(sum.data(), of_first.data(), bytes) == 0,
         "the sum of %d numbers of %zu bytes differs from rank 0's", count, sizeof(T));
}

}  // namespace

RANK_TEST(reductions, by_every_operation_on_every_type, 1) {
  uint64_t salt = 0;
  for (const Operation& operation : predefined_operations()) {
    // Allreduce, and another one of the seed's choice.
    const Kind other = kinds[key_of(options.seed, ++salt) % std::size(kinds)];
    for (Kind kind : {Kind::allreduce, other}) {
      const int count = counts[key_of(options.seed, salt, static_cast<uint64_t>(kind)) % std::size(counts)];
      check_reduction(operation, any_reduction(kind, MPI_COMM_WORLD, count, salt));
    }
    rearm_watchdog();
  }
}

RANK_TEST(reductions, of_two_local_buffers, 1) {
  uint64_t salt = 0;
  for (const Operation& operation : predefined_operations()) {
    for (Place to : host_and_device) {
      ++salt;
      check_reduce_local(operation, 33, salt % 3 == 0 ? Place::host : Place::device, to, options.seed + salt);
    }
  }
}

RANK_TEST(reductions, are_equal_to_the_last_bit_on_all_ranks, 2) {
  for (int count : {1, 2, 3, 100, 5001, 40000}) {
    for (uint64_t salt = 0; salt < 3; ++salt) {
      expect_equal_bits<float>(MPI_FLOAT, count, Place::device, salt);
      expect_equal_bits<double>(MPI_DOUBLE, count, Place::device, salt);
      expect_equal_bits<double>(MPI_DOUBLE, count, rank % 2 == 0 ? Place::host : Place::device, salt);
    }
  }
}

RANK_TEST(reductions, by_an_operation_of_the_user_that_does_not_commute, 1) {
  Operation product = {"a product of matrices", MPI_DATATYPE_NULL, MPI_OP_NULL, sizeof(Matrix), make_matrix,
                       fold<Matrix, times>,     same_matrix};
  MUST(MPI_Type_contiguous(4, MPI_UINT32_T, &product.type));
  MUST(MPI_Type_commit(&product.type));
  MUST(MPI_Op_create(user_function<Matrix, times>, 0, &product.op));
  check_everywhere(product, MPI_COMM_WORLD);
  MPI_Comm reversed;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
  check_everywhere(product, reversed);
  MUST(MPI_Comm_free(&reversed));
  MUST(MPI_Op_free(&product.op));
  MUST(MPI_Type_free(&product.type));
}

RANK_TEST(reductions, by_an_operation_of_the_user_that_commutes_on_a_type_with_gaps, 1) {
  Operation tally = {"a tally",  MPI_DATATYPE_NULL, MPI_OP_NULL, sizeof(Tally),
                     make_tally, fold<Tally, plus>, same_tally};
  const int lengths[] = {1, 1};
  const MPI_Aint places[] = {offsetof(Tally, largest), offsetof(Tally, sum)};
  const MPI_Datatype types[] = {MPI_SHORT, MPI_DOUBLE};
  MPI_Datatype parts;
  MUST(MPI_Type_create_struct(2, lengths, places, types, &parts));
  MUST(MPI_Type_create_resized(parts, 0, sizeof(Tally), &tally.type));
  MUST(MPI_Type_commit(&tally.type));
  MUST(MPI_Type_free(&parts));
  MUST(MPI_Op_create(user_function<Tally, plus>, 1, &tally.op));
  check_everywhere(tally, MPI_COMM_WORLD);
  MUST(MPI_Op_free(&tally.op));
  MUST(MPI_Type_free(&tally.type));
}

namespace {

// Elements of a pair type as bytes, of which those between the members are the program's.
template <class Pair>
std::vector<char> pairs_of(int owner, int count, char padding) {
  std::vector<char> bytes(static_cast<size_t>(count) * sizeof(Pair), padding);
  for (int i = 0; i < count; ++i) {
    char* pair = bytes.data() + static_cast<size_t>(i) * sizeof(Pair);
    const auto value = static_cast<decltype(Pair::value)>((owner * 7 + i) % 5);
    memcpy(pair + offsetof(Pair, value), &value, sizeof value);
    memcpy(pair + offsetof(Pair, index), &owner, sizeof owner);
  }
  return bytes;
}

// The greatest of the values of the ranks up to this one, and the first who has it.
template <class Pair>
std::vector<char> largest_of(int last, int count, char padding) {
  std::vector<char> bytes = pairs_of<Pair>(0, count, padding);
  for (int owner = 1; owner <= last; ++owner) {
    const std::vector<char> others = pairs_of<Pair>(owner, count, padding);
    for (size_t at = 0; at < bytes.size(); at += sizeof(Pair)) {
      Pair a, b;
      memcpy(&a, bytes.data() + at, sizeof a);
      memcpy(&b, others.data() + at, sizeof b);
      if (b.value > a.value)
        std::copy_n(others.begin() + static_cast<int64_t>(at), sizeof b,
                    bytes.begin() + static_cast<int64_t>(at));
    }
  }
  return bytes;
}

template <class Pair>
void check_padding(MPI_Datatype type, int count) {
  constexpr char sent = 0x11, kept = 0x22;
  const MPI_Comm comm = MPI_COMM_WORLD;
  const std::vector<char> mine = pairs_of<Pair>(rank, count, sent);
  Memory send(Place::device, mine.size());
  send.write(mine.data(), mine.size());
  const auto expect = [&](const char* what, bool in_place, int last, const auto& call) {
    const std::vector<char> before =
        in_place ? pairs_of<Pair>(rank, count, kept) : std::vector<char>(mine.size(), kept);
    Memory receive(Place::device, before.size());
    receive.write(before.data(), before.size());
    MUST(call(in_place ? MPI_IN_PLACE : static_cast<void*>(send), receive));
    std::string why;
    EXPECT(receive.holds(last < 0 ? before : largest_of<Pair>(last, count, kept), &why),
           "%s of %d pairs%s: %s", what, count, in_place ? " in place" : "", why.c_str());
  };
  for (bool in_place : {false, true}) {
    expect("MPI_Allreduce", in_place, size - 1, [&](const void* from, void* to) {
      return MPI_Allreduce(from, to, count, type, MPI_MAXLOC, comm);
    });
    expect("MPI_Scan", in_place, rank,
           [&](const void* from, void* to) { return MPI_Scan(from, to, count, type, MPI_MAXLOC, comm); });
    expect("MPI_Reduce", in_place && rank == 0, rank == 0 ? size - 1 : -1, [&](const void* from, void* to) {
      return MPI_Reduce(from, to, count, type, MPI_MAXLOC, 0, comm);
    });
  }
}

}  // namespace

RANK_TEST(reductions, padding_of_pairs_is_the_programs, 1) {
  struct DoubleInt {
    double value;
    int index;
  };
  struct ShortInt {
    short value;
    int index;
  };
  for (int count : {1, 5, 3000}) {
    check_padding<DoubleInt>(MPI_DOUBLE_INT, count);
    check_padding<ShortInt>(MPI_SHORT_INT, count);
  }
}

// MPI_REPLACE and MPI_NO_OP are for one-sided calls; an operation on a type of the user's own needs to be
// his.
RANK_TEST(reductions, by_an_operation_that_does_not_fit_the_type_are_errors, 1) {
  Memory send(Place::device, 64), receive(Place::device, 64);
  EXPECT_ERROR(MPI_Allreduce(send, receive, 4, MPI_FLOAT, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
  EXPECT_ERROR(MPI_Allreduce(send, receive, 4, MPI_INT, MPI_MAXLOC, MPI_COMM_WORLD), MPI_ERR_OP);
  EXPECT_HOLDS(receive, 0, 0);
}
