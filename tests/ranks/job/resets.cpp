// SPDX-License-Identifier: Apache-2.0
//
// Programs that reset their device (cudaDeviceReset, hipDeviceReset) between messages, when nothing is in
// flight and no memory is left: afterwards all works as with a new device. Resets by all ranks and by one,
// before MPI_Finalize, and of one device among several.

#include <fairlead/device.h>

#include <cstdlib>
#include <cstring>

#include "streams/enqueue.h"

using namespace ranks;

namespace {

constexpr int lives = 3;
constexpr size_t sizes[] = {100, 50000, 4 << 20};

void reset() {
  if (!host_oracle && fairlead_device_reset() != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot reset the device: %s", fairlead_device_error_text());
}

int next() {
  return (rank + 1) % size;
}
int previous() {
  return (rank + size - 1) % size;
}

void exchange(Place from, Place to, size_t bytes, uint64_t life) {
  Memory out(from, bytes), in(to, bytes);
  out.fill(key_of(bytes, life, rank));
  MUST(MPI_Sendrecv(out, count(out), MPI_BYTE, next(), tag, in, count(in), MPI_BYTE, previous(), tag,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_HOLDS(in, key_of(bytes, life, previous()), bytes);
}

void add_up(size_t bytes, int life) {
  const std::vector<int> mine(bytes / sizeof(int), 10 * life + rank);
  Memory part(Place::device, bytes), sum(Place::device, bytes);
  part.write(mine.data(), mine.size() * sizeof(int));
  MUST(MPI_Allreduce(part, sum, static_cast<int>(mine.size()), MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  std::vector<int> found(mine.size());
  sum.read(found.data(), found.size() * sizeof(int));
  const int wanted = size * 10 * life + size * (size - 1) / 2;
  EXPECT(found == std::vector<int>(found.size(), wanted), "life %d: the sum of %zu bytes begins with %d",
         life, bytes, found[0]);
}

// A layout without a pattern, whose table is in device memory as long as the datatype lives.
MPI_Datatype every_third_or_so(int blocks) {
  std::vector<int> lengths, places;
  for (int i = 0; i < blocks; ++i) {
    lengths.push_back(1 + i % 3);
    places.push_back(5 * i + i % 2);
  }
  MPI_Datatype type;
  MUST(MPI_Type_indexed(blocks, lengths.data(), places.data(), MPI_INT, &type));
  MUST(MPI_Type_commit(&type));
  return type;
}

void exchange_blocks(MPI_Datatype type, int life) {
  int packed = 0;
  MPI_Aint first = 0, extent = 0;
  MPI_Type_size(type, &packed);
  MPI_Type_get_extent(type, &first, &extent);
  const auto bytes = static_cast<size_t>(packed);
  Memory out(Place::device, static_cast<size_t>(extent)), in(Place::device, bytes);
  out.fill(key_of(7, life, rank));
  std::vector<char> sent(static_cast<size_t>(extent)), wanted(bytes);
  write_pattern(key_of(7, life, previous()), sent.data(), sent.size());
  int position = 0;
  MUST(MPI_Pack(sent.data(), 1, type, wanted.data(), packed, &position, MPI_COMM_WORLD));
  MUST(MPI_Sendrecv(out, 1, type, next(), tag, in, packed, MPI_BYTE, previous(), tag, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
  std::string why;
  EXPECT(in.holds(wanted, &why), "life %d: blocks: %s", life, why.c_str());
}

void put_and_get(size_t bytes, uint64_t life) {
  Memory exposed(Place::device, bytes), out(Place::device, bytes), in(Place::device, bytes);
  MPI_Win window;
  out.fill(key_of(bytes, life, rank));
  MUST(MPI_Win_create(exposed, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
  MUST(MPI_Win_fence(0, window));
  MUST(MPI_Put(out, count(out), MPI_BYTE, next(), 0, count(out), MPI_BYTE, window));
  MUST(MPI_Win_fence(0, window));
  EXPECT_HOLDS(exposed, key_of(bytes, life, previous()), bytes);
  MUST(MPI_Get(in, count(in), MPI_BYTE, next(), 0, count(in), MPI_BYTE, window));
  MUST(MPI_Win_fence(0, window));
  EXPECT_HOLDS(in, key_of(bytes, life, rank), bytes);
  MUST(MPI_Win_free(&window));
}

void enqueue_all(size_t bytes, uint64_t life) {
  if (why_not()) return;
  Stream stream;
  Memory out = pattern(bytes, key_of(bytes, life, rank)), in(Place::device, bytes), sum(Place::device, 4);
  const int one = 1;
  sum.write(&one, sizeof one);
  MPI_Request requests[2];
  MUST(MPIX_Irecv_enqueue(in, count(in), MPI_BYTE, previous(), tag, stream.comm(), &requests[0]));
  MUST(MPIX_Isend_enqueue(out, count(out), MPI_BYTE, next(), tag, stream.comm(), &requests[1]));
  MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
  MUST(MPIX_Allreduce_enqueue(MPI_IN_PLACE, sum, 1, MPI_INT, MPI_SUM, stream.comm()));
  stream.synchronize();
  EXPECT_HOLDS(in, key_of(bytes, life, previous()), bytes);
  int found = 0;
  sum.read(&found, sizeof found);
  EXPECT(found == size, "life %d: a stream counts %d ranks", static_cast<int>(life), found);
}

// The rank that has reset its device receives device memory into host memory, and does nothing else with its
// device before.
void receive_at_once(int receiver, uint64_t life) {
  constexpr int length = 300000;
  if (rank == receiver) {
    std::vector<char> in(length), wanted(length);
    MUST(MPI_Recv(in.data(), length, MPI_BYTE, next(), tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    write_pattern(key_of(5, life), wanted.data(), wanted.size());
    EXPECT(in == wanted, "life %d: wrong bytes in host memory", static_cast<int>(life));
  } else if (rank == (receiver + 1) % size) {
    Memory out = pattern(length, key_of(5, life));
    MUST(MPI_Send(out, length, MPI_BYTE, receiver, tag, MPI_COMM_WORLD));
  }
}

void use_all(MPI_Datatype type, int life) {
  for (size_t bytes : sizes) {
    for (Place from : host_and_device)
      for (Place to : host_and_device) exchange(from, to, bytes, static_cast<uint64_t>(life));
    add_up(bytes, life);
    put_and_get(bytes, static_cast<uint64_t>(life));
    enqueue_all(bytes, static_cast<uint64_t>(life));
  }
  exchange_blocks(type, life);
}

// All ranks reset their devices, or the one that this function returns.
template <class Resets>
void live_several_times(Resets resets) {
  MPI_Datatype type = every_third_or_so(20000);
  for (int life = 0; life < lives; ++life) {
    use_all(type, life);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    const int one = resets(life);
    if (one < 0 || one == rank) reset();
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    receive_at_once(std::max(one, 0), life);
  }
  use_all(type, lives);
  MUST(MPI_Type_free(&type));
}

}  // namespace

RANK_TEST(resets, M16_all_ranks_reset_their_devices, 2) {
  live_several_times([](int) { return -1; });
}

RANK_TEST(resets, M16_one_rank_resets_its_device, 2) {
  live_several_times([](int life) { return life % size; });
}

RANK_TEST(resets, M16_a_rank_resets_after_each_kind_of_use, 2) {
  MPI_Datatype type = every_third_or_so(5000);
  const std::vector<void (*)(MPI_Datatype, int)> uses = {
      [](MPI_Datatype, int life) { exchange(Place::device, Place::device, 100, life); },
      [](MPI_Datatype, int life) { exchange(Place::device, Place::host, 50000, life); },
      [](MPI_Datatype, int life) { exchange(Place::host, Place::device, 4 << 20, life); },
      [](MPI_Datatype, int life) { add_up(100, life); },
      [](MPI_Datatype, int life) { add_up(4 << 20, life); },
      [](MPI_Datatype type, int life) { exchange_blocks(type, life); },
      [](MPI_Datatype, int life) { put_and_get(50000, life); },
      [](MPI_Datatype, int life) { enqueue_all(50000, life); },
  };
  for (size_t before = 0; before < uses.size(); ++before)
    for (size_t after = 0; after < uses.size(); ++after) {
      uses[before](type, static_cast<int>(before));
      MUST(MPI_Barrier(MPI_COMM_WORLD));
      if (rank == 0) reset();
      uses[after](type, static_cast<int>(after));
    }
  MUST(MPI_Type_free(&type));
}

// Its mapping of the target's memory has ended with its own device's context. Virtual memory cannot be mapped
// again, because its owner sends the file descriptor once.
RANK_TEST(resets, M16_an_origin_resets_its_device_between_puts, 2) {
  constexpr size_t bytes = 300000;
  const char* const kind = getenv("TEST_MEMORY");
  const bool is_shared_by_file = kind && strcmp(kind, "virtual") == 0;
  Memory exposed(rank == 1 ? Place::device : Place::host, rank == 1 ? bytes : 0);
  MPI_Win window;
  MUST(MPI_Win_create(exposed, static_cast<MPI_Aint>(exposed.bytes()), 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                      &window));
  MUST(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
  for (int life = 0; life < lives; ++life) {
    MUST(MPI_Win_fence(0, window));
    if (rank == 0) {
      const Place place = life % 2 ? Place::host : Place::device;
      Memory out(place, bytes);
      out.fill(key_of(life));
      const auto put = [&] { return MPI_Put(out, count(out), MPI_BYTE, 1, 0, count(out), MPI_BYTE, window); };
      if (life > 0 && is_shared_by_file)
        EXPECT_ERROR(put(), MPI_ERR_OTHER);
      else
        MUST(put());
      MUST(MPI_Win_fence(0, window));
    } else {
      MUST(MPI_Win_fence(0, window));
    }
    if (rank == 0) reset();
    if (rank == 1) EXPECT_HOLDS(exposed, key_of(is_shared_by_file ? 0 : life), bytes);
  }
  MUST(MPI_Win_free(&window));
}

// What the rank keeps on its other devices goes on.
RANK_TEST(resets, M16_one_of_several_devices_is_reset, 2) {
  if (host_oracle || fairlead_device_count() < 2) return skip("needs two devices in each rank");
  constexpr size_t bytes = 300000;
  const int peer = partner();
  int first = 0;
  fairlead_device_get(&first);
  const int other = (first + 1) % fairlead_device_count();
  auto use = [](int device) {
    if (fairlead_device_set(device) != FAIRLEAD_DEVICE_SUCCESS) give_up("%s", fairlead_device_error_text());
  };
  {
    use(other);
    Memory out(Place::device, bytes), in(Place::device, bytes);
    for (int life = 0; life < lives; ++life) {
      use(first);
      exchange(Place::device, Place::device, 50000, life);
      add_up(5000, life);
      reset();
      out.fill(key_of(life, rank));
      if (peer != MPI_PROC_NULL) {
        MUST(MPI_Sendrecv(out, count(out), MPI_BYTE, peer, tag, in, count(in), MPI_BYTE, peer, tag,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EXPECT_HOLDS(in, key_of(life, peer), bytes);
      }
      in.clear();
    }
  }
  use(first);
}

// Alone in its test: nothing follows but MPI_Finalize.
RANK_TEST(resets, M16_the_device_is_reset_before_MPI_Finalize, 2) {
  MPI_Datatype type = every_third_or_so(20000);
  use_all(type, 0);
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  reset();
  MUST(MPI_Type_free(&type));
}

RANK_TEST(resets, M16_one_device_is_reset_before_MPI_Finalize, 2) {
  MPI_Datatype type = every_third_or_so(20000);
  use_all(type, 0);
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) reset();
}
