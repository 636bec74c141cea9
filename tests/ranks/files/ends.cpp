// SPDX-License-Identifier: Apache-2.0
//
// What ends a read or write early: the end of the file, a full disk, wrong arguments. The host MPI's answer
// on host memory, through Fairlead, is the right one.

#include <sys/resource.h>

#include <csignal>

#include "files/files.h"

using namespace ranks;
using namespace ranks::files;

namespace {

struct Answer {
  int error = MPI_SUCCESS;
  long long bytes = 0;
};

void expect_same(const Answer (&answers)[2], const char* what) {
  EXPECT(answers[0].error == answers[1].error && answers[0].bytes == answers[1].bytes,
         "%s: error class %d, %lld bytes from host memory, class %d, %lld bytes from device memory", what,
         answers[0].error, answers[0].bytes, answers[1].error, answers[1].bytes);
}

constexpr Way alone[] = {Way::at,     Way::iat,     Way::own,     Way::iown,
                         Way::at_all, Way::own_all, Way::iat_all, Way::split_at};

// Open MPI (4.1.4) waits for ever for a nonblocking read beyond the end of a file.
bool host_mpi_ends_reads([[maybe_unused]] Way way) {
#if defined(OPEN_MPI)
  return way != Way::iat && way != Way::iown && way != Way::iat_all && way != Way::split_at;
#else
  return true;
#endif
}

}  // namespace

RANK_TEST(files, reads_beyond_the_end, 1) {
  if (tolerate_errors) return;
  for (size_t bytes : {size_t{100}, size_t{1234567}}) {
    File file(MPI_COMM_SELF);
    Memory contents(Place::host, bytes);
    contents.fill(key_of(bytes, 1));
    file.set_contents({contents.data(), contents.data() + bytes});
    for (Way way : alone) {
      if (!host_mpi_ends_reads(way)) continue;
      for (MPI_Offset from : {MPI_Offset{0}, static_cast<MPI_Offset>(bytes)}) {
        Answer answers[2];
        for (int kind = 0; kind < 2; ++kind) {
          Memory in(host_and_device[kind], 2 * bytes);
          MPI_Status status;
          answers[kind].error = error_class(
              access(Direction::read, way, file, from, in, static_cast<int>(2 * bytes), MPI_BYTE, &status));
          answers[kind].bytes = bytes_of(status);
          EXPECT_HOLDS(in, key_of(bytes, 1), from == 0 ? bytes : 0);
        }
        expect_same(answers, to_string(way));
        // The hosts count all bytes of some reads of several ranks, and write only those that are there.
        if (!is_collective(way))
          EXPECT(answers[1].bytes == (from == 0 ? static_cast<long long>(bytes) : 0), "%s: %lld bytes",
                 to_string(way), answers[1].bytes);
      }
    }
  }
}

RANK_TEST(files, a_layout_with_gaps_is_filled_as_far_as_the_file_goes, 1) {
  if (tolerate_errors || host_oracle) return;  // MPICH's status counts all bytes of such a layout
  constexpr int rows = 1000, there = 333;
  File file(MPI_COMM_SELF);
  std::vector<char> contents(there);
  write_pattern(key_of(2), contents.data(), contents.size());
  file.set_contents(contents);
  MPI_Datatype gaps;
  MUST(MPI_Type_vector(rows, 1, 2, MPI_BYTE, &gaps));
  MUST(MPI_Type_commit(&gaps));
  for (Way way : alone) {
    if (!host_mpi_ends_reads(way)) continue;
    Memory in(Place::device, 2 * rows);
    MPI_Status status;
    MUST(access(Direction::read, way, file, 0, in, 1, gaps, &status));
    if (!is_collective(way))
      EXPECT(bytes_of(status) == there, "%s: %lld bytes", to_string(way), bytes_of(status));
    std::vector<char> found(2 * rows);
    in.read(found.data(), found.size());
    for (int i = 0; i < 2 * rows; ++i) {
      const bool filled = i % 2 == 0 && i / 2 < there;
      const char wanted = filled ? contents[static_cast<size_t>(i / 2)] : static_cast<char>(guard_byte);
      if (found[static_cast<size_t>(i)] == wanted) continue;
      EXPECT(false, "%s: byte %d is wrong", to_string(way), i);
      break;
    }
  }
  MUST(MPI_Type_free(&gaps));
}

// Of the only element, an int and another one behind a gap, the file has the first.
RANK_TEST(files, the_end_is_in_an_element_with_gaps, 1) {
  if (tolerate_errors) return;
#if !defined(OPEN_MPI)
  return skip("MPICH (4.0.2) itself writes the second int, with other bytes");
#endif
  File file(MPI_COMM_SELF);
  std::vector<char> contents(2 * sizeof(int));
  write_pattern(key_of(3), contents.data(), contents.size());
  file.set_contents(contents);
  MPI_Datatype gaps;
  MUST(MPI_Type_vector(2, 1, 2, MPI_INT, &gaps));
  MUST(MPI_Type_commit(&gaps));
  MUST(MPI_File_set_view(file, 0, gaps, gaps, "native", MPI_INFO_NULL));
  for (Way way : alone) {
    if (!host_mpi_ends_reads(way)) continue;
    Memory in(Place::device, 2 * sizeof(int));
    MPI_Status status;
    MUST(access(Direction::read, way, file, 0, in, 2, MPI_INT, &status));
    EXPECT_HOLDS(in, key_of(3), sizeof(int));
  }
  MUST(MPI_Type_free(&gaps));
}

// A limit on the length of files stands for a full disk.
RANK_TEST(files, a_full_disk, 1) {
  if (tolerate_errors) return;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  constexpr size_t room = 1 << 20;
  for (size_t bytes : {room + 4096, 3 * room})
    for (Way way : {Way::at, Way::own, Way::at_all}) {
      Answer answers[2];
      size_t written[2] = {};
      for (int kind = 0; kind < 2; ++kind) {
        File file(MPI_COMM_SELF);
        Memory out(host_and_device[kind], bytes);
        out.fill(key_of(bytes));
        const rlimit limit{room, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
        MPI_Status status{};
        answers[kind].error = error_class(
            access(Direction::write, way, file, 0, out, static_cast<int>(bytes), MPI_BYTE, &status));
        if (answers[kind].error == MPI_SUCCESS) answers[kind].bytes = bytes_of(status);
        setrlimit(RLIMIT_FSIZE, &before);
        written[kind] = file.contents().size();
      }
      expect_same(answers, to_string(way));
      EXPECT(written[0] == written[1], "%s: %zu bytes from host, %zu from device memory are in the file",
             to_string(way), written[0], written[1]);
    }
  signal(SIGXFSZ, handler);
}

// A file that may only be read or only be written, and arguments that make no sense.
RANK_TEST(files, wrong_arguments, 1) {
  if (tolerate_errors) return;
  File file(MPI_COMM_SELF);
  MPI_Datatype uncommitted;
  MUST(MPI_Type_vector(2, 1, 2, MPI_INT, &uncommitted));
  struct Bad {
    const char* what;
    bool null_file;
    int mode;
    Direction direction;
    MPI_Offset offset;
    int count;
    MPI_Datatype type;
  };
  const Bad all[] = {
      {"no file", true, MPI_MODE_RDWR, Direction::write, 0, 10, MPI_BYTE},
      {"no file", true, MPI_MODE_RDWR, Direction::read, 0, 10, MPI_BYTE},
      {"a negative count", false, MPI_MODE_RDWR, Direction::write, 0, -1, MPI_BYTE},
      {"no datatype", false, MPI_MODE_RDWR, Direction::read, 0, 1, MPI_DATATYPE_NULL},
      {"an uncommitted datatype", false, MPI_MODE_RDWR, Direction::write, 0, 1, uncommitted},
      {"a write to a file that is only read", false, MPI_MODE_RDONLY, Direction::write, 0, 10, MPI_BYTE},
      {"a read of a file that is only written", false, MPI_MODE_WRONLY, Direction::read, 0, 10, MPI_BYTE},
  };
  for (const Bad& bad : all) {
    file.close();
    file.open(bad.mode);
    for (Way way : alone) {
      // Wrong arguments of a file that is open leave a split collective of MPICH begun.
      if (way == Way::split_at) continue;
      if (bad.null_file && (way == Way::own || way == Way::iown || way == Way::own_all))
        continue;  // seek fails
      Answer answers[2];
      for (int kind = 0; kind < 2; ++kind) {
        Memory buffer(host_and_device[kind], 100);
        MPI_Status status;
        answers[kind].error =
            error_class(access(bad.direction, way, bad.null_file ? MPI_FILE_NULL : MPI_File(file), bad.offset,
                               buffer, bad.count, bad.type, &status));
      }
      expect_same(answers, bad.what);
      EXPECT(answers[1].error != MPI_SUCCESS, "%s by %s is no error", bad.what, to_string(way));
    }
  }
  MUST(MPI_Type_free(&uncommitted));
}

RANK_TEST(files, nothing_is_read_or_written, 1) {
  for (Way way : all_ways) {
    File file;
    Memory buffer(Place::device, 100);
    MPI_Status status;
    for (Direction direction : {Direction::write, Direction::read})
      if (MUST(access(direction, way, file, 0, buffer, 0, MPI_BYTE, &status)))
        EXPECT(bytes_of(status) == 0, "%s: %lld bytes", to_string(way), bytes_of(status));
    EXPECT(file.contents().empty(), "%s: the file is not empty", to_string(way));
  }
}
