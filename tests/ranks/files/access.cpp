// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes of device memory: each function, in each kind of memory, with layouts that have gaps in
// memory, in the file, or both. What is in a file is looked at without MPI.

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/system/imported_symbols.h"
#include "files/files.h"
#include "harness/counted_errors.h"
#include "harness/mpi4.h"

using namespace ranks;
using namespace ranks::files;

namespace {

std::vector<char> pattern(uint64_t key, size_t bytes) {
  std::vector<char> made(bytes);
  write_pattern(key, made.data(), bytes);
  return made;
}

std::vector<char> part(const std::vector<char>& whole, size_t at, size_t bytes) {
  if (at + bytes > whole.size()) return {};
  const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(at);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}

// With the shared file pointer, ranks write in any order: where is this rank's block?
size_t place_of(const std::vector<char>& block, const std::vector<char>& file) {
  for (size_t at = 0; at + block.size() <= file.size(); at += block.size())
    if (part(file, at, block.size()) == block) return at;
  return SIZE_MAX;
}

void expect_bytes(const MPI_Status& status, size_t bytes, const char* what) {
  const long long found = bytes_of(status);
  EXPECT(found == static_cast<long long>(bytes), "%s: the status says %lld bytes, not %zu", what, found,
         bytes);
}

void write_and_read_back(Way way, Place place, size_t bytes, uint64_t key) {
  File file;
  MPI_Status status;
  const MPI_Offset mine = static_cast<MPI_Offset>(bytes) * rank;
  const int count = static_cast<int>(bytes);
  const std::vector<char> wanted = pattern(key_of(key, static_cast<uint64_t>(rank)), bytes);
  Memory out(place, bytes), in(place, bytes);
  out.fill(key_of(key, static_cast<uint64_t>(rank)));
  if (MUST(access(Direction::write, way, file, mine, out, count, MPI_BYTE, &status)))
    expect_bytes(status, bytes, to_string(way));
  const std::vector<char> written = file.contents();
  const bool anywhere = way == Way::shared || way == Way::ishared;
  const size_t at = anywhere ? place_of(wanted, written) : bytes * static_cast<size_t>(rank);
  if (!tolerate_errors)
    EXPECT(at != SIZE_MAX && part(written, at, bytes) == wanted,
           "%s from %s memory: %zu bytes are not in the file", to_string(way), to_string(place), bytes);
  if (is_shared(way)) MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  if (!MUST(access(Direction::read, way, file, mine, in, count, MPI_BYTE, &status))) return;
  expect_bytes(status, bytes, to_string(way));
  std::vector<char> found(bytes);
  in.read(found.data(), bytes);
  if (tolerate_errors) return;
  if (anywhere)
    EXPECT(place_of(found, written) != SIZE_MAX, "%s into %s memory: no block of the file", to_string(way),
           to_string(place));
  else
    EXPECT_HOLDS(in, key_of(key, static_cast<uint64_t>(rank)), bytes);
}

}  // namespace

RANK_TEST(files, every_function_writes_and_reads_back, 1) {
  uint64_t key = 0;
  for (Way way : all_ways)
    for (Place place : host_and_device)
      for (size_t bytes : {size_t{1}, size_t{1000}, size_t{3000001}})
        write_and_read_back(way, place, bytes, ++key);
}

RANK_TEST(files, every_kind_of_memory, 1) {
  uint64_t key = 100;
  for (Place place : all_places)
    for (Way way : {Way::at, Way::iown, Way::own_all, Way::split_at})
      write_and_read_back(way, place, 700000, ++key);
}

RANK_TEST(files, ranks_of_a_collective_pass_host_and_device_memory, 2) {
  uint64_t key = 200;
  for (Way way : {Way::at_all, Way::iat_all, Way::own_all, Way::split_own, Way::ordered})
    for (int odd : {0, 1}) write_and_read_back(way, host_and_device[(rank + odd) % 2], 100000, ++key);
}

RANK_TEST(files, large_counts, 1) {
  using At = int(MPI_File, MPI_Offset, void*, MPI_Count, MPI_Datatype, MPI_Status*);
  const auto write_at = mpi4::find<At>("MPI_File_write_at_c"), read_at = mpi4::find<At>("MPI_File_read_at_c");
  const auto write_all = mpi4::find<At>("MPI_File_write_at_all_c");
  if (!write_at || !read_at || !write_all) return skip("the MPI has no large counts");
  constexpr size_t bytes = 1500000;
  for (auto write : {write_at, write_all}) {
    File file;
    MPI_Status status;
    const MPI_Offset mine = static_cast<MPI_Offset>(bytes) * rank;
    Memory out(Place::device, bytes), in(Place::device, bytes);
    out.fill(key_of(rank, 300));
    if (MUST(write(file, mine, out, bytes, MPI_BYTE, &status))) expect_bytes(status, bytes, "write");
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (MUST(read_at(file, mine, in, bytes, MPI_BYTE, &status))) expect_bytes(status, bytes, "read");
    if (!tolerate_errors) EXPECT_HOLDS(in, key_of(rank, 300), bytes);
  }
}

// Those of MPI_Type_create_f90_*, by themselves and in other types: an attempt to free them is an error.
RANK_TEST(files, predefined_types_without_a_name, 1) {
  const MPI_Comm raises[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
  MPI_Errhandler handler, before[2];
  MUST(MPI_Comm_create_errhandler(count_error, &handler));
  for (int i = 0; i < 2; ++i) {
    MUST(MPI_Comm_get_errhandler(raises[i], &before[i]));
    MUST(MPI_Comm_set_errhandler(raises[i], handler));
  }
  errors_handled = 0;
  MPI_Datatype real, gaps;
  MUST(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real));
  MUST(MPI_Type_vector(100, 1, 2, real, &gaps));
  MUST(MPI_Type_commit(&gaps));
  for (MPI_Datatype type : {real, gaps}) {
    const int count = type == real ? 200 : 1;
    const size_t bytes = type == real ? 1600 : 800;
    File file(MPI_COMM_SELF);
    MPI_Status status;
    Memory out(Place::device, 1600), in(Place::device, 1600);
    out.fill(key_of(400));
    MUST(MPI_File_set_view(file, 0, real, real, "native", MPI_INFO_NULL));
    if (MUST(MPI_File_write_at(file, 0, out, count, type, &status))) expect_bytes(status, bytes, "write");
    if (MUST(MPI_File_read_at(file, 0, in, count, type, &status))) expect_bytes(status, bytes, "read");
    if (!tolerate_errors && type == real) EXPECT_HOLDS(in, key_of(400), bytes);
  }
  MUST(MPI_Type_free(&gaps));
  EXPECT(errors_handled == 0, "%d errors were raised", errors_handled);
  for (int i = 0; i < 2; ++i) {
    MUST(MPI_Comm_set_errhandler(raises[i], before[i]));
    MUST(MPI_Errhandler_free(&before[i]));
  }
  MUST(MPI_Errhandler_free(&handler));
}

// Ranks write interleaved columns of ints, from a layout with gaps, and read them back into another.
RANK_TEST(files, gaps_in_memory_and_in_the_file, 1) {
  constexpr int rows = 5000;
  MPI_Datatype column, gaps, whole;
  MUST(MPI_Type_vector(rows, 1, size, MPI_INT, &column));
  MUST(MPI_Type_commit(&column));
  MUST(MPI_Type_vector(rows, 1, 3, MPI_INT, &gaps));
  MUST(MPI_Type_commit(&gaps));
  MUST(MPI_Type_contiguous(rows, MPI_INT, &whole));
  MUST(MPI_Type_commit(&whole));
  auto value = [](int row, int of) { return row * 100 + of; };
  for (Way way : {Way::at, Way::at_all, Way::iat, Way::iat_all, Way::own, Way::split_own}) {
    File file;
    MUST(MPI_File_set_view(file, rank * static_cast<MPI_Offset>(sizeof(int)), MPI_INT, column, "native",
                           MPI_INFO_NULL));
    std::vector<int> values(3 * rows), found(3 * rows);
    for (int row = 0; row < rows; ++row) values[static_cast<size_t>(3 * row)] = value(row, rank);
    Memory out(Place::device, values.size() * sizeof(int)), in(Place::device, values.size() * sizeof(int));
    out.write(values.data(), out.bytes());
    MPI_Status status;
    if (MUST(access(Direction::write, way, file, 0, out, 1, gaps, &status)))
      expect_bytes(status, rows * sizeof(int), to_string(way));
    int elements = 0;
    MUST(MPI_Get_elements(&status, gaps, &elements));
    EXPECT(elements == rows || tolerate_errors, "%d elements, not %d", elements, rows);
    const std::vector<char> written = file.contents();
    if (!tolerate_errors)
      EXPECT(written.size() == sizeof(int) * static_cast<size_t>(rows * size), "the file has %zu bytes",
             written.size());
    for (int row = 0; row < rows && !tolerate_errors; ++row)
      for (int of = 0; of < size; ++of) {
        int there = -1;
        std::memcpy(&there, written.data() + sizeof(int) * static_cast<size_t>(row * size + of),
                    sizeof there);
        if (there != value(row, of)) {
          EXPECT(false, "%s: row %d of rank %d is %d", to_string(way), row, of, there);
          row = rows;
          break;
        }
      }
    // What lies between stays.
    if (!MUST(access(Direction::read, way, file, 0, in, 1, gaps, &status))) continue;
    in.read(found.data(), in.bytes());
    int guard;
    std::memset(&guard, guard_byte, sizeof guard);
    for (int i = 0; i < 3 * rows - 2 && !tolerate_errors; ++i) {
      const int wanted = i % 3 == 0 ? value(i / 3, rank) : guard;
      if (found[static_cast<size_t>(i)] == wanted) continue;
      EXPECT(false, "%s: int %d is %d, not %d", to_string(way), i, found[static_cast<size_t>(i)], wanted);
      break;
    }
    // The same elements without gaps.
    Memory dense(Place::device, rows * sizeof(int));
    if (!MUST(access(Direction::read, way, file, 0, dense, 1, whole, &status))) continue;
    dense.read(found.data(), dense.bytes());
    for (int row = 0; row < rows && !tolerate_errors; ++row)
      if (found[static_cast<size_t>(row)] != value(row, rank)) {
        EXPECT(false, "%s: element %d is %d", to_string(way), row, found[static_cast<size_t>(row)]);
        break;
      }
  }
  for (MPI_Datatype* type : {&column, &gaps, &whole}) MUST(MPI_Type_free(type));
}

// The host MPI converts, so a file that device memory was written to is that of host memory.
RANK_TEST(files, other_representations, 1) {
  constexpr int ints = 10000;
  MPI_Datatype gaps;
  MUST(MPI_Type_vector(ints, 1, 2, MPI_INT, &gaps));
  MUST(MPI_Type_commit(&gaps));
  for (const char* representation : {"external32", "internal"}) {
    std::vector<char> files[2];
    for (int kind = 0; kind < 2; ++kind) {
      File file;
      const MPI_Offset mine = static_cast<MPI_Offset>(ints * sizeof(int)) * rank;
      if (CALL(MPI_File_set_view(file, mine, MPI_INT, MPI_INT, representation, MPI_INFO_NULL)) != MPI_SUCCESS)
        break;
      std::vector<int> values(2 * ints), found(2 * ints);
      std::iota(values.begin(), values.end(), 1);
      Memory out(host_and_device[kind], values.size() * sizeof(int));
      Memory in(host_and_device[kind], values.size() * sizeof(int));
      out.write(values.data(), out.bytes());
      MPI_Status status;
      for (int step : {1, 2}) {
        const MPI_Datatype type = step == 1 ? MPI_INT : gaps;
        const int count = step == 1 ? ints : 1;
        MUST(MPI_File_write_at(file, 0, out, count, type, &status));
        MUST(MPI_File_read_at(file, 0, in, count, type, &status));
        in.read(found.data(), in.bytes());
        for (int i = 0; i < ints && !tolerate_errors; ++i)
          if (found[static_cast<size_t>(i * step)] != values[static_cast<size_t>(i * step)]) {
            EXPECT(false, "%s: int %d is %d", representation, i, found[static_cast<size_t>(i * step)]);
            break;
          }
      }
      files[kind] = file.contents();
    }
    EXPECT(files[0] == files[1] || tolerate_errors, "%s: the files differ", representation);
  }
  MUST(MPI_Type_free(&gaps));
}

RANK_TEST(files, many_requests_at_once, 1) {
  constexpr int many = 16;
  constexpr size_t bytes = 40000;
  File file;
  std::vector<Memory> memory;
  MPI_Request requests[many];
  MPI_Status statuses[many];
  auto place = [](int i) { return host_and_device[i % 3 != 0]; };
  auto offset = [](int i) { return static_cast<MPI_Offset>(bytes) * (rank * many + i); };
  for (int i = 0; i < many; ++i) {
    memory.emplace_back(place(i), bytes).fill(key_of(i, rank, 400));
    MUST(MPI_File_iwrite_at(file, offset(i), memory.back(), bytes, MPI_BYTE, &requests[i]));
  }
  if (MUST(MPI_Waitall(many, requests, statuses)))
    for (const MPI_Status& status : statuses) expect_bytes(status, bytes, "iwrite_at");
  for (int i = 0; i < many; ++i)
    MUST(MPI_File_iread_at(file, offset(i), memory[static_cast<size_t>(i)].clear(), bytes, MPI_BYTE,
                           &requests[i]));
  for (int done = 0; done < many;) {
    int outcount = 0, indices[many];
    if (!MUST(MPI_Waitsome(many, requests, &outcount, indices, statuses))) return;
    for (int k = 0; k < outcount; ++k) expect_bytes(statuses[k], bytes, "iread_at");
    done += outcount;
  }
  for (int i = 0; i < many && !tolerate_errors; ++i)
    EXPECT_HOLDS(memory[static_cast<size_t>(i)], key_of(i, rank, 400), bytes);
}

// Each call takes a place of its own, whole, whoever else calls: M9.
RANK_TEST(files, M9_threads_share_an_individual_file_pointer, 1) {
  if (!threads) return skip("needs TEST_THREADS=1");
  constexpr int rounds = 4, ways = 4;
  constexpr size_t bytes = 1000000;
  File file(MPI_COMM_SELF);
  const auto key = [](int way, int round) { return key_of(rank, way, round); };
  std::vector<std::vector<char>> blocks(ways * rounds, std::vector<char>(bytes));
  // All blocks, each by one call: of host memory, of device memory, and nonblocking.
  const auto move = [&](Direction direction) {
    const auto move_one = [&](int way, int round) {
      const bool writes = direction == Direction::write;
      Memory block(host_and_device[way != 0], bytes);
      block.fill(key(way, round));
      MPI_Request request;
      MPI_Status status;
      if (way == ways - 1) {
        MUST(writes ? MPI_File_iwrite(file, block, bytes, MPI_BYTE, &request)
                    : MPI_File_iread(file, block, bytes, MPI_BYTE, &request));
        MUST(MPI_Wait(&request, &status));
      } else {
        MUST(writes ? MPI_File_write(file, block, bytes, MPI_BYTE, &status)
                    : MPI_File_read(file, block, bytes, MPI_BYTE, &status));
      }
      expect_bytes(status, bytes, writes ? "write" : "read");
      MPI_Offset at = 0;
      MUST(MPI_File_seek(file, 0, MPI_SEEK_CUR));
      MUST(MPI_File_get_position(file, &at));
      EXPECT(at % bytes == 0 || tolerate_errors, "the pointer is in the middle of an access");
      block.read(blocks[static_cast<size_t>(way * rounds + round)].data(), bytes);
    };
    std::vector<std::thread> running;
    for (int way = 0; way < ways; ++way)
      running.emplace_back([&, way] {
        for (int round = 0; round < rounds; ++round) move_one(way, round);
      });
    for (std::thread& thread : running) thread.join();
  };
  for (Direction direction : {Direction::write, Direction::read}) {
    MUST(MPI_File_seek(file, 0, MPI_SEEK_SET));
    move(direction);
    const std::vector<char> contents = file.contents();
    for (size_t i = 0; i < blocks.size() && !tolerate_errors; ++i)
      EXPECT(place_of(blocks[i], contents) != SIZE_MAX, "access %zu is not in one place", i);
  }
}

// File functions of a host MPI call others of it by MPI_X, and would wait in vain for a request of Fairlead.
RANK_TEST(files, what_the_host_MPI_calls_is_its_own, 1) {
  void* own = dlsym(RTLD_DEFAULT, "fairlead_info");
  Dl_info library;
  if (!own || !dladdr(own, &library)) return;
  const fairlead::LoadedObject interposer(own), host(dlsym(RTLD_DEFAULT, "PMPI_Init"));
  void* handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  const bool read =
      host.for_each_import(fairlead::LoadedObject::Access::read, [&](const fairlead::ImportedSymbol& symbol) {
        if (std::strncmp(symbol.name, "MPI_", 4) != 0 || !interposer.contains(dlsym(handle, symbol.name)))
          return;
        EXPECT(*symbol.slot == dlsym(RTLD_DEFAULT, std::string("P").append(symbol.name).c_str()),
               "the host MPI calls %s of another library", symbol.name);
      });
  EXPECT(read, "the references of the host MPI cannot be read");
}

// The program frees the datatype, and changes the buffer after the end, while others are pending.
RANK_TEST(files, datatypes_are_freed_early, 1) {
  constexpr int rows = 30000;
  File file;
  Memory out(Place::device, 2 * rows), in(Place::device, 2 * rows);
  out.fill(key_of(rank, 500));
  const MPI_Offset mine = static_cast<MPI_Offset>(rows) * rank;
  for (Direction direction : {Direction::write, Direction::read}) {
    MPI_Datatype gaps;
    MPI_Request request;
    MUST(MPI_Type_vector(rows, 1, 2, MPI_BYTE, &gaps));
    MUST(MPI_Type_commit(&gaps));
    if (direction == Direction::write)
      MUST(MPI_File_iwrite_at(file, mine, out, 1, gaps, &request));
    else
      MUST(MPI_File_iread_at(file, mine, in, 1, gaps, &request));
    MUST(MPI_Type_free(&gaps));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
  std::vector<char> wanted(2 * rows), found(2 * rows);
  out.read(wanted.data(), wanted.size());
  in.read(found.data(), found.size());
  for (size_t i = 0; i < found.size() && !tolerate_errors; i += 2)
    if (found[i] != wanted[i]) {
      EXPECT(false, "byte %zu is wrong", i);
      break;
    }
}

// Atomic accesses are not split.
RANK_TEST(files, atomic_accesses, 1) {
  constexpr size_t bytes = 2000000;
  File file;
  MUST(MPI_File_set_atomicity(file, 1));
  Memory out(Place::device, bytes), in(Place::device, bytes);
  out.fill(key_of(rank, 600));
  for (int round = 0; round < 3; ++round) {
    // All to one place: one of them is there as a whole.
    MUST(MPI_File_write_at(file, 0, out, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (!MUST(MPI_File_read_at(file, 0, in, bytes, MPI_BYTE, MPI_STATUS_IGNORE))) continue;
    std::vector<char> found(bytes);
    in.read(found.data(), bytes);
    bool known = tolerate_errors;
    for (int of = 0; of < size && !known; ++of) known = found == pattern(key_of(of, 600), bytes);
    EXPECT(known, "the file holds parts of several writes");
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
}
