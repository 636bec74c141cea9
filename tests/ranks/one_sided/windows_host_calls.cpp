// SPDX-License-Identifier: Apache-2.0
//
// Calls that only the host MPI can complete, while ranks need answers of active-message targets.

#include <unistd.h>

#include <functional>

#include "files/files.h"
#include "harness/exposed.h"

using namespace ranks;

namespace {

// Microseconds after which a rank has most likely entered the call that follows.
constexpr unsigned in_the_call = 3000;

// A dynamic window: its targets are active-message targets wherever they are.
class Dynamic {
 public:
  explicit Dynamic(size_t bytes, MPI_Comm comm = MPI_COMM_WORLD)
      : memory_(Place::device, bytes), addresses_(static_cast<size_t>(size)) {
    MUST(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window_));
    MUST(MPI_Win_attach(window_, memory_, static_cast<MPI_Aint>(bytes)));
    MPI_Aint mine = 0;
    MUST(MPI_Get_address(memory_, &mine));
    MUST(MPI_Allgather(&mine, 1, MPI_AINT, addresses_.data(), 1, MPI_AINT, comm));
  }
  ~Dynamic() {
    MUST(MPI_Win_detach(window_, memory_));
    MUST(MPI_Win_free(&window_));
  }
  Dynamic(const Dynamic&) = delete;
  Dynamic& operator=(const Dynamic&) = delete;

  void put_at(int target, const Memory& from) {
    const int count = static_cast<int>(from.bytes());
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window_));
    MUST(MPI_Put(from, count, MPI_BYTE, target, addresses_[static_cast<size_t>(target)], count, MPI_BYTE,
                 window_));
    MUST(MPI_Win_unlock(target, window_));
  }
  const Memory& memory() const { return memory_; }

 private:
  Memory memory_;
  std::vector<MPI_Aint> addresses_;
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace

// `origin` needs an answer of rank 0 before it makes the call, in which rank 0 is already.
static void call_the_host_while_one_is_served(int origin) {
  constexpr size_t bytes = 4096;
  Dynamic exposed(bytes);
  SharedFlags flags;
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  const int members = size, periodic = 1, one = 1, around[2] = {left, right};
  MPI_Comm half, inter, made = MPI_COMM_NULL;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
  MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter));
  std::vector<int> ends, neighbours;
  for (int each = 0; each < size; ++each) {
    neighbours.insert(neighbours.end(), {(each + size - 1) % size, (each + 1) % size});
    ends.push_back(static_cast<int>(neighbours.size()));
  }
  MPI_Group everyone;
  MUST(MPI_Comm_group(MPI_COMM_WORLD, &everyone));
  char host[64] = {};
  MPI_Win of_host;
  MUST(MPI_Win_create(host, sizeof host, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &of_host));
  files::File file(MPI_COMM_WORLD, MPI_MODE_CREATE | MPI_MODE_RDWR);
  int sum = 0;

  const std::pair<const char*, std::function<int()>> calls[] = {
      {"MPI_Cart_create", [&] { return MPI_Cart_create(MPI_COMM_WORLD, 1, &members, &periodic, 0, &made); }},
      {"MPI_Graph_create",
       [&] { return MPI_Graph_create(MPI_COMM_WORLD, size, ends.data(), neighbours.data(), 0, &made); }},
      {"MPI_Dist_graph_create",
       [&] {
         return MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &right, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                      0, &made);
       }},
      {"MPI_Dist_graph_create_adjacent",
       [&] {
         return MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, around, MPI_UNWEIGHTED, 2, around,
                                               MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
       }},
      {"MPI_Intercomm_create",
       [&] { return MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &made); }},
      {"MPI_Intercomm_merge", [&] { return MPI_Intercomm_merge(inter, 0, &made); }},
      {"MPI_Comm_create_group", [&] { return MPI_Comm_create_group(MPI_COMM_WORLD, everyone, 2, &made); }},
      {"MPI_Comm_dup of an inter-communicator", [&] { return MPI_Comm_dup(inter, &made); }},
      {"MPI_Barrier of an inter-communicator", [&] { return MPI_Barrier(inter); }},
      {"MPI_Allreduce of an inter-communicator",
       [&] { return MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter); }},
      {"MPI_Win_fence", [&] { return MPI_Win_fence(0, of_host); }},
      {"MPI_File_set_size", [&] { return MPI_File_set_size(file, 1000); }},
      {"MPI_File_set_view",
       [&] { return MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL); }},
      {"MPI_File_write_all",
       [&] { return MPI_File_write_all(file, host, sizeof host, MPI_BYTE, MPI_STATUS_IGNORE); }},
      {"MPI_File_write_ordered",
       [&] { return MPI_File_write_ordered(file, host, sizeof host, MPI_BYTE, MPI_STATUS_IGNORE); }},
      {"MPI_File_sync", [&] { return MPI_File_sync(file); }},
      {"MPI_Win_free", [&] { return MPI_Win_free(&of_host); }},
  };
  Memory out(Place::device, bytes);
  for (int flag = 0; const auto& [name, call] : calls) {
    if (rank == 0) flags.raise(flag);
    if (rank == origin) {
      flags.await(flag);
      usleep(in_the_call);
      out.fill(key_of(flag));
      exposed.put_at(0, out);
    }
    EXPECT(call() == MPI_SUCCESS, "%s", name);
    if (made != MPI_COMM_NULL) MUST(MPI_Comm_free(&made));
    // Rank 0 may leave some of the calls before the other one has entered them.
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) EXPECT_HOLDS(exposed.memory(), key_of(flag), bytes);
    ++flag;
  }
  MUST(MPI_Group_free(&everyone));
  MUST(MPI_Comm_free(&inter));
  MUST(MPI_Comm_free(&half));
}

// In inter-communicators rank 1 is in the other group, and rank 2 in that of rank 0.
RANK_TEST(windows, all_make_a_call_of_the_host_while_one_is_served, 2) {
  call_the_host_while_one_is_served(1);
  if (size > 2) call_the_host_while_one_is_served(2);
}

// The last rank belongs to no window. The others meet without it.
RANK_TEST(windows, some_of_those_that_call_belong_to_one, 3) {
  const int last = size - 1;
  MPI_Comm part;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank == last ? MPI_UNDEFINED : 0, rank, &part));
  if (rank == last) {
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    return;
  }
  {
    Dynamic exposed(4096, part);
    if (rank == 1) {
      usleep(in_the_call);
      Memory out(Place::device, 4096);
      out.fill(key_of(3));
      exposed.put_at(0, out);
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) EXPECT_HOLDS(exposed.memory(), key_of(3), 4096);
  }
  MUST(MPI_Comm_free(&part));
}

// Rank 0 waits for accesses of the host MPI's, whose origin needs an answer of it before.
RANK_TEST(windows, a_target_waits_for_accesses_of_the_host_while_one_is_served, 2) {
  Dynamic exposed(4096);
  char host[64] = {};
  MPI_Win of_host;
  MUST(MPI_Win_create(host, sizeof host, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &of_host));
  MPI_Group everyone, other;
  MUST(MPI_Comm_group(MPI_COMM_WORLD, &everyone));
  const int peer = rank == 0 ? 1 : 0;
  MUST(MPI_Group_incl(everyone, 1, &peer, &other));
  if (rank == 0) {
    MUST(MPI_Win_post(other, 0, of_host));
    MUST(MPI_Win_wait(of_host));
    EXPECT_HOLDS(exposed.memory(), key_of(5), 4096);
    EXPECT(host[0] == 'x', "the host's access left %d", host[0]);
  } else if (rank == 1) {
    usleep(in_the_call);
    Memory out(Place::device, 4096);
    out.fill(key_of(5));
    exposed.put_at(0, out);
    MUST(MPI_Win_start(other, 0, of_host));
    MUST(MPI_Put("x", 1, MPI_CHAR, 0, 0, 1, MPI_CHAR, of_host));
    MUST(MPI_Win_complete(of_host));
  }
  MUST(MPI_Group_free(&other));
  MUST(MPI_Group_free(&everyone));
  MUST(MPI_Win_free(&of_host));
}
