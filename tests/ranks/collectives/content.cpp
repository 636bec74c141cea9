// SPDX-License-Identifier: Apache-2.0

#include "collectives/content.h"

#include <algorithm>
#include <cstring>

namespace ranks::coll {

namespace {

std::vector<MPI_Datatype>& made_types() {
  static std::vector<MPI_Datatype> types;
  return types;
}

int free_types(MPI_Comm, int, void*, void*) {
  for (MPI_Datatype& type : made_types()) MPI_Type_free(&type);
  return MPI_SUCCESS;
}

// MPI_Finalize deletes the attributes of MPI_COMM_SELF first.
void free_types_at_the_end() {
  int key;
  MUST(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_types, &key, nullptr));
  MUST(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr));
  MUST(MPI_Comm_free_keyval(&key));
}

Layout committed(MPI_Datatype type, std::vector<Layout::Piece> pieces) {
  MPI_Aint lower, extent;
  int bytes;
  MUST(MPI_Type_commit(&type));
  made_types().push_back(type);
  MUST(MPI_Type_size(type, &bytes));
  MUST(MPI_Type_get_extent(type, &lower, &extent));
  return {type, static_cast<size_t>(bytes), static_cast<size_t>(extent), std::move(pieces)};
}

// Types of three integers each.
std::vector<Layout> derived_layouts() {
  free_types_at_the_end();
  MPI_Datatype contiguous, strided, resized, structure, backwards;
  MUST(MPI_Type_contiguous(3, MPI_INT, &contiguous));
  MUST(MPI_Type_vector(3, 1, 2, MPI_INT, &strided));
  MUST(MPI_Type_create_resized(contiguous, 0, 32, &resized));
  const int lengths[] = {1, 2};
  const MPI_Aint places[] = {0, 12};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  MUST(MPI_Type_create_struct(2, lengths, places, types, &structure));
  const int displacements[] = {3, 2, 0};
  MUST(MPI_Type_create_indexed_block(3, 1, displacements, MPI_INT, &backwards));
  return {committed(contiguous, {{0, 12}}), committed(strided, {{0, 4}, {8, 4}, {16, 4}}),
          committed(resized, {{0, 12}}), committed(structure, {{0, 4}, {12, 8}}),
          committed(backwards, {{12, 4}, {8, 4}, {0, 4}})};
}

// Sums stay within the type, for up to ten ranks: Open MPI 4.1.4 saturates bytes instead of wrapping them.
template <class T>
void contribute(uint64_t key, int first, int count, char* to) {
  constexpr uint64_t values = sizeof(T) == 1 ? 25 : 1000;
  for (int i = 0; i < count; ++i) {
    const T value = static_cast<T>(key_of(key, static_cast<uint64_t>(first + i)) % values);
    memcpy(to + sizeof(T) * static_cast<size_t>(i), &value, sizeof(T));
  }
}

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};

struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

struct ExclusiveOr {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};

template <class T, class Operation>
void fold(char* into, const char* other, int count) {
  for (int i = 0; i < count; ++i, into += sizeof(T), other += sizeof(T)) {
    T a, b;
    memcpy(&a, into, sizeof(T));
    memcpy(&b, other, sizeof(T));
    a = Operation()(a, b);
    memcpy(into, &a, sizeof(T));
  }
}

template <class T, class Operation>
Arithmetic of(MPI_Datatype type, MPI_Op op) {
  return {{type, sizeof(T), sizeof(T), {{0, sizeof(T)}}}, op, contribute<T>, fold<T, Operation>};
}

}  // namespace

const Layout& layout_of(Types types, uint64_t dice) {
  static const Layout bytes = {MPI_BYTE, 1, 1, {{0, 1}}};
  static const Layout integers = {MPI_INT, sizeof(int), sizeof(int), {{0, sizeof(int)}}};
  static const std::vector<Layout> derived = derived_layouts();
  if (types == Types::bytes) return bytes;
  if (types == Types::integers) return integers;
  return derived[dice % derived.size()];
}

void place_items(char* to, const Layout& layout, int count, uint64_t key) {
  const size_t bytes = static_cast<size_t>(count) * layout.bytes;
  if (layout.bytes == layout.extent && layout.pieces.size() == 1) {
    write_pattern(key, to, bytes);
    return;
  }
  std::vector<char> packed(bytes);
  write_pattern(key, packed.data(), bytes);
  const char* next = packed.data();
  for (int item = 0; item < count; ++item, to += layout.extent) {
    for (const Layout::Piece& piece : layout.pieces) {
      memcpy(to + piece.offset, next, piece.bytes);
      next += piece.bytes;
    }
  }
}

const Arithmetic& arithmetic(uint64_t dice) {
  static const Arithmetic all[] = {
      of<int, Sum>(MPI_INT, MPI_SUM),           of<double, Sum>(MPI_DOUBLE, MPI_SUM),
      of<float, Maximum>(MPI_FLOAT, MPI_MAX),   of<uint64_t, ExclusiveOr>(MPI_UINT64_T, MPI_BXOR),
      of<int16_t, Maximum>(MPI_SHORT, MPI_MAX), of<unsigned char, Sum>(MPI_UINT8_T, MPI_SUM),
      of<float, Sum>(MPI_FLOAT, MPI_SUM),
  };
  return all[key_of(dice) % std::size(all)];
}

void reduce_into(char* to, const Arithmetic& arithmetic, uint64_t key, int first_rank, int ranks, int first,
                 int count) {
  std::vector<char> other(static_cast<size_t>(count) * arithmetic.layout.bytes);
  for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
    arithmetic.contribute(key_of(key, static_cast<uint64_t>(rank)), first, count,
                          rank == first_rank ? to : other.data());
    if (rank != first_rank) arithmetic.fold(to, other.data(), count);
  }
}

}  // namespace ranks::coll
