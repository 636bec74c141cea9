// SPDX-License-Identifier: Apache-2.0
//
// MPI_Pack_external and MPI_Unpack_external of device memory: the bytes are those that the host MPI makes.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include "harness/laid_out.h"

using namespace ranks;

namespace {

char form[] = "external32";

}  // namespace

// The external form is big-endian and without gaps. Of one basic type, since MPICH 4.0 crashes on those of
// several where it packs.
RANK_TEST(datatypes, packing_and_unpacking_in_the_external_form, 1) {
  constexpr int count = 50, each = 3, width = 2 * each;
  MPI_Datatype bare, resized;
  MUST(MPI_Type_vector(each, 1, 2, MPI_DOUBLE, &bare));
  MUST(MPI_Type_create_resized(bare, 0, width * sizeof(double), &resized));
  MUST(MPI_Type_free(&bare));
  Type element(resized);
  std::vector<char> values(size_t{count} * width * sizeof(double)), wanted(3, static_cast<char>(guard_byte));
  for (int i = 0; i < count * width; i += 2) {
    const double value = i - 40.25;
    char* at = values.data() + static_cast<size_t>(i) * sizeof value;
    memcpy(at, &value, sizeof value);
    wanted.insert(wanted.end(), std::reverse_iterator(at + sizeof value), std::reverse_iterator(at));
  }
  std::string why;
  for (Place elements : {Place::host, Place::device})
    for (Place packed : {Place::host, Place::device}) {
      Memory out(elements, values.size()), in(elements, values.size()), external(packed, wanted.size() + 5);
      out.write(values.data(), values.size());
      MPI_Aint position = 3, needed = 0, room = static_cast<MPI_Aint>(external.bytes());
      MUST(MPI_Pack_external_size("external32", count, element, &needed));
      EXPECT(needed == static_cast<MPI_Aint>(wanted.size()) - 3, "%lld bytes are needed",
             static_cast<long long>(needed));
      MUST(MPI_Pack_external("external32", out, count, element, external, room, &position));
      EXPECT(position == needed + 3, "the position is %lld", static_cast<long long>(position));
      EXPECT(external.holds(wanted, &why), "packed from %s to %s memory: %s", to_string(elements),
             to_string(packed), why.c_str());
      position = 3;
      MUST(MPI_Unpack_external("external32", external, room, &position, in, count, element));
      EXPECT(position == needed + 3, "the position is %lld", static_cast<long long>(position));
      std::vector<char> arrived(values.size(), static_cast<char>(guard_byte));
      for (size_t i = 0; i < arrived.size(); ++i)
        if (i / sizeof(double) % 2 == 0) arrived[i] = values[i];
      EXPECT(in.holds(arrived, &why), "unpacked from %s to %s memory: %s", to_string(packed),
             to_string(elements), why.c_str());
    }
}

// Some have another size in the external form.
RANK_TEST(external, basic_types_as_the_host_packs_them, 1) {
  const MPI_Datatype types[] = {
      MPI_BYTE,
      MPI_SHORT,
      MPI_INT,
      MPI_LONG,
      MPI_LONG_LONG,
      MPI_FLOAT,
      MPI_DOUBLE,
      MPI_C_FLOAT_COMPLEX,
      MPI_C_DOUBLE_COMPLEX,
      MPI_C_BOOL,
      MPI_AINT,
      MPI_UNSIGNED_LONG,
#ifndef MPICH_VERSION  // MPICH 4.0 itself crashes
      MPI_WCHAR,
      MPI_2INT,
      MPI_SHORT_INT,
      MPI_FLOAT_INT,
      MPI_DOUBLE_INT,
      MPI_LONG_INT,
#endif
  };
  constexpr int count = 37;
  for (MPI_Datatype type : types) {
    int length = 0;
    MUST(MPI_Type_size(type, &length));
    MPI_Aint lower = 0, extent = 0;
    MUST(MPI_Type_get_extent(type, &lower, &extent));
    std::vector<char> values(static_cast<size_t>(count * extent));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = type == MPI_C_BOOL ? i % 3 == 0 : static_cast<char>(i * 37 % 127);
    MPI_Aint room = 0, position = 0;
    MUST(MPI_Pack_external_size(form, count, type, &room));
    std::vector<char> wanted(static_cast<size_t>(room)),
        arrived(values.size(), static_cast<char>(guard_byte));
    MUST(MPI_Pack_external(form, values.data(), count, type, wanted.data(), room, &position));
    const MPI_Aint bytes = position;  // Open MPI 4.1 says that it needs more for MPI_LONG
    wanted.resize(static_cast<size_t>(bytes));
    position = 0;
    MUST(MPI_Unpack_external(form, wanted.data(), bytes, &position, arrived.data(), count, type));
    for (Place place : {Place::host, Place::device}) {
      Memory out(Place::device, values.size()), in(Place::device, values.size()),
          packed(place, static_cast<size_t>(room));
      out.write(values.data(), values.size());
      std::string why;
      position = 0;
      MUST(MPI_Pack_external(form, out, count, type, packed, room, &position));
      EXPECT(position == bytes, "the position is %td, not %td", position, bytes);
      EXPECT(packed.holds(wanted, &why), "%d bytes of a type: packed wrong: %s", length, why.c_str());
      position = 0;
      MUST(MPI_Unpack_external(form, packed, bytes, &position, in, count, type));
      EXPECT(position == bytes, "the position is %td, not %td", position, bytes);
      EXPECT(in.holds(arrived, &why), "%d bytes of a type: unpacked wrong: %s", length, why.c_str());
    }
  }
}

namespace {

// Elements of several parts, each with a number of values of a basic type.
struct Record {
  std::vector<int> lengths;
  std::vector<MPI_Aint> places;
  std::vector<MPI_Datatype> types;
  size_t extent;
};

void pack_and_unpack(const Record& record, int count) {
  MPI_Datatype bare, resized;
  MUST(MPI_Type_create_struct(static_cast<int>(record.lengths.size()), record.lengths.data(),
                              record.places.data(), record.types.data(), &bare));
  MUST(MPI_Type_create_resized(bare, 0, static_cast<MPI_Aint>(record.extent), &resized));
  MUST(MPI_Type_free(&bare));
  const Type element(resized);
  std::vector<char> arrived(static_cast<size_t>(count) * record.extent, static_cast<char>(guard_byte)),
      wanted;
  for (size_t i = 0; i < arrived.size(); i += record.extent)
    for (size_t part = 0; part < record.lengths.size(); ++part) {
      int size = 0;
      MUST(MPI_Type_size(record.types[part], &size));
      for (int k = 0; k < record.lengths[part]; ++k) {
        const size_t at = i + static_cast<size_t>(record.places[part] + k * size);
        for (int byte = 0; byte < size; ++byte)
          arrived[at + static_cast<size_t>(byte)] =
              static_cast<char>((at * 7 + static_cast<size_t>(byte) * 31) % 120);
        wanted.insert(wanted.end(), std::reverse_iterator(arrived.data() + at + size),
                      std::reverse_iterator(arrived.data() + at));
      }
    }
  for (Place place : {Place::host, Place::device}) {
    Memory out(Place::device, arrived.size()), in(Place::device, arrived.size()),
        packed(place, wanted.size());
    out.write(arrived.data(), arrived.size());
    std::string why;
    MPI_Aint position = 0;
    const auto room = static_cast<MPI_Aint>(wanted.size());
    MUST(MPI_Pack_external(form, out, count, element, packed, room, &position));
    EXPECT(position == room, "the position is %td, not %td", position, room);
    EXPECT(packed.holds(wanted, &why), "packed wrong: %s", why.c_str());
    position = 0;
    MUST(MPI_Unpack_external(form, packed, room, &position, in, count, element));
    EXPECT(in.holds(arrived, &why), "unpacked wrong: %s", why.c_str());
  }
}

}  // namespace

// By kernels: MPICH 4.0 itself crashes on such types.
RANK_TEST(external, types_of_several_basic_types, 1) {
#ifdef MPICH_VERSION
  if (host_oracle) return skip("MPICH 4.0 crashes");
#endif
  struct Made {
    char name[3];
    double value;
    short few[2];
    int many;
  };
  const Record record = {
      {3, 1, 2, 1},
      {offsetof(Made, name), offsetof(Made, value), offsetof(Made, few), offsetof(Made, many)},
      {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT},
      sizeof(Made)};
  // In host memory the longer form takes another way.
  for (int count : {1, 100, 1500}) pack_and_unpack(record, count);
}

// As many blocks as bytes, of which there is no list.
RANK_TEST(external, two_long_arrays, 1) {
#ifdef MPICH_VERSION
  return skip("MPICH 4.0 crashes");
#endif
  constexpr int length = 9000;
  pack_and_unpack(
      {{length, length}, {0, length * sizeof(double)}, {MPI_DOUBLE, MPI_INT}, length * (sizeof(double) + 4)},
      2);
}
