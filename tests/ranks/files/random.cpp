// SPDX-License-Identifier: Apache-2.0
//
// Random programs on two files: one is read and written in device memory of random layouts, the other, by the
// same calls, in host memory without gaps. All counts, all bytes that are read and both files must be equal.

#include <random>

#include "files/files.h"
#include "harness/laid_out.h"
#include "harness/rounds.h"

using namespace ranks;
using namespace ranks::files;

namespace {

constexpr MPI_Offset region = 200000;  // of each rank

uint64_t below(std::mt19937_64& random, uint64_t limit) {
  return random() % limit;
}

// A view in which a rank sees only its own region, or its own blocks among those of the others.
void set_view(MPI_File first, MPI_File second, bool interleaved, int block) {
  MPI_Datatype bare, filetype;
  MUST(MPI_Type_contiguous(block, MPI_BYTE, &bare));
  MUST(MPI_Type_create_resized(bare, 0, block * static_cast<MPI_Aint>(size), &filetype));
  MUST(MPI_Type_commit(&filetype));
  for (MPI_File file : {first, second})
    MUST(MPI_File_set_view(file, rank * (interleaved ? static_cast<MPI_Offset>(block) : region), MPI_BYTE,
                           interleaved ? filetype : MPI_BYTE, "native", MPI_INFO_NULL));
  MUST(MPI_Type_free(&bare));
  MUST(MPI_Type_free(&filetype));
}

void run_program(uint64_t seed) {
  std::mt19937_64 common(seed), own(seed * 1000 + static_cast<uint64_t>(rank));
  File device, host;
  for (MPI_File file : {MPI_File(device), MPI_File(host)}) MUST(MPI_File_set_size(file, region * size));
  bool interleaved = false;
  for (int step = 0; step < 12; ++step) {
    if (below(common, 3) == 0) {
      interleaved = below(common, 2) != 0;
      // All blocks of a rank's region fit as often as in the other view.
      const int blocks[] = {1000, 100, 8, 50000};
      set_view(device, host, interleaved, blocks[below(common, 4)]);
    } else if (step == 0) {
      set_view(device, host, false, 1);
    }
    const size_t ways = std::size(all_ways) - (size == 1 ? 0 : 2);
    const Way way = all_ways[below(common, ways)];
    const Direction direction = below(common, 2) ? Direction::read : Direction::write;
    if (is_shared(way)) {
      // All ranks must have the same view.
      interleaved = false;
      for (MPI_File file : {MPI_File(device), MPI_File(host)})
        MUST(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    }
    random_layout::Node node;
    node.kind = random_layout::Node::Kind::basic;
    node.bytes = 1 + below(own, 3000);
    node.high = node.extent = static_cast<int64_t>(node.bytes);
    const Place place = all_places[below(own, std::size(all_places))];
    // MPICH (4.0.2) overwrites its own memory if it gets layouts that run backwards.
    const bool by_fairlead =
        !host_oracle && place != Place::host && place != Place::pinned && place != Place::managed;
    if (by_fairlead && below(own, 3) != 0) {
      random_layout::Node made = random_layout::Generator(own(), false, false).make(3);
      if (made.size() > 0 && made.size() < 20000 && made.span(4) < longest_span / 16 && host_mpi_moves(made))
        node = made;
    }
    const uint64_t count = 1 + below(own, 4);
    Spread spread(place, node, count, own);
    Type type(node);
    std::vector<char> bytes =
        direction == Direction::write ? spread.packed() : std::vector<char>(spread.bytes());
    const MPI_Offset offset =
        is_shared(way) ? 0
                       : static_cast<MPI_Offset>(below(own, static_cast<uint64_t>(region) - bytes.size()));
    if (is_shared(way))
      for (MPI_File file : {MPI_File(device), MPI_File(host)})
        MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_Status of_device, of_host;
    const std::string what = std::string(direction == Direction::read ? "read " : "write ") + to_string(way) +
                             " of " + std::to_string(count) + " x " + node.text();
    MUST(access(direction, way, device, offset, spread.address(), static_cast<int>(count), type, &of_device));
    MUST(access(direction, way, host, offset, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE,
                &of_host));
    EXPECT(bytes_of(of_device) == bytes_of(of_host), "%s: %lld bytes, not %lld", what.c_str(),
           bytes_of(of_device), bytes_of(of_host));
    if (direction == Direction::read) {
      bytes.resize(static_cast<size_t>(std::max(bytes_of(of_host), 0ll)));
      spread.expect(bytes);
    }
    std::string why;
    EXPECT(spread.holds(&why), "%s: %s", what.c_str(), why.c_str());
    MPI_Offset positions[2];
    MUST(MPI_File_get_position(device, &positions[0]));
    MUST(MPI_File_get_position(host, &positions[1]));
    EXPECT(positions[0] == positions[1], "%s: the file pointer is at %lld, not %lld", what.c_str(),
           static_cast<long long>(positions[0]), static_cast<long long>(positions[1]));
    // The next one may read what another rank has written, in another view.
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (is_shared(way)) set_view(device, host, false, 1);
  }
  const std::vector<char> found = device.contents(), wanted = host.contents();
  const auto differ = std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
  EXPECT(found == wanted, "the files, of %zu and %zu bytes, differ from byte %td on", found.size(),
         wanted.size(), differ.first - found.begin());
}

}  // namespace

RANK_TEST(files, random_programs, 1) {
  if (tolerate_errors) return;
  repeat("files.random_programs", options.seconds, run_program);
}
