// SPDX-License-Identifier: Apache-2.0
//
// No resource that runs out makes a call hang (M13). Each case takes something away from this process after
// MPI_Init, and then sends its first device message. ctest runs every case in a job of its own, because what
// Fairlead makes at the first message lasts.
//
//   TEST_LACKS=files       no file descriptor is left
//   TEST_LACKS=dumpable    other processes may not look into this one (PR_SET_DUMPABLE), as after setuid;
//                          dumpable_at_start: nor before MPI_Init
//   TEST_LACKS=space       little address space is left: less than Fairlead's staging memory takes
//   TEST_LACKS=file_size   no file may grow (RLIMIT_FSIZE), memory that processes share included
//   TEST_LACKING=even|odd  on those ranks only

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "harness/address_space.h"
#include "harness/harness.h"
#include "harness/mpi4.h"

using namespace ranks;

namespace {

constexpr int tag = 51;
constexpr size_t sizes[] = {8, 4096, 100'000, 5 << 20};
constexpr size_t largest = 5 << 20;

std::string setting(const char* variable) {
  const char* text = getenv(variable);
  return text ? text : "";
}

enum class Form { blocking, nonblocking, persistent };

bool lacks_on(int this_rank) {
  const std::string which = setting("TEST_LACKING");
  return which.empty() || (which == "even") == (this_rank % 2 == 0);
}

// What ordinary users may not do either: root looks into every process.
void forbid_to_look_into_processes() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets) != 0) return;
  sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
  syscall(SYS_capset, &header, sets);
}

// While it lives, this process lacks what TEST_LACKS says.
class Lack {
 public:
  Lack() {
    const std::string what = setting("TEST_LACKS");
    if (what == "dumpable") forbid_to_look_into_processes();
    if (!lacks_on(rank)) return;
    if (what == "files") use_up_files();
    if (what == "dumpable") prctl(PR_SET_DUMPABLE, 0);
    if (what == "space") limit(RLIMIT_AS, address_space_in_use() + (size_t{40} << 20));
    // The simulated GPU runs into the limit as well.
    if (what == "file_size") signal(SIGXFSZ, SIG_IGN), limit(RLIMIT_FSIZE, 0);
  }
  ~Lack() {
    for (int file : files_) close(file);
    if (limited_) setrlimit(resource_, &before_);
    if (setting("TEST_LACKS") == "dumpable") prctl(PR_SET_DUMPABLE, 1);
  }

 private:
  void limit(__rlimit_resource resource, size_t value) {
    resource_ = resource;
    getrlimit(resource, &before_);
    rlimit lower = before_;
    lower.rlim_cur = value;
    limited_ = setrlimit(resource, &lower) == 0;
  }
  // No lower than what is open: poll() refuses more descriptors than the limit.
  void use_up_files() {
    const int highest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 200);
    close(highest);
    limit(RLIMIT_NOFILE, static_cast<size_t>(highest));
    for (int file; (file = dup(STDERR_FILENO)) >= 0;) files_.push_back(file);
  }

  std::vector<int> files_;
  __rlimit_resource resource_ = RLIMIT_NOFILE;
  rlimit before_{};
  bool limited_ = false;
};

// Before main(), hence before MPI_Init.
const bool dumpable_at_start = [] {
  if (setting("TEST_LACKS") != "dumpable_at_start") return true;
  forbid_to_look_into_processes();
  const std::string launched = setting("OMPI_COMM_WORLD_RANK") + setting("PMI_RANK");
  return !lacks_on(atoi(launched.c_str())) || prctl(PR_SET_DUMPABLE, 0) != 0;
}();

// In both directions, each rank first once.
void exchange(Memory& out, Memory& in, size_t bytes) {
  const int peer = partner(), count = static_cast<int>(bytes);
  const uint64_t mine = key_of(static_cast<uint64_t>(rank), bytes),
                 its = key_of(static_cast<uint64_t>(peer), bytes);
  out.fill(mine);
  in.clear();
  for (int sender : {0, 1}) {
    if (rank % 2 == sender)
      MUST(MPI_Send(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    else if (MUST(MPI_Recv(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)))
      EXPECT_HOLDS(in, its, bytes);
  }
}

// Address space that every receive into device memory needs, and keeps: whoever lacks that receives nothing.
void prepare_to_receive(Memory& in) {
  if (setting("TEST_LACKS") != "space") return;
  Memory out(Place::host, largest);
  exchange(out, in, largest);
}

}  // namespace

RANK_TEST(resources, M13_the_first_messages_arrive, 2) {
  if (partner() == MPI_PROC_NULL) return;
  Memory out(Place::device, largest), in(Place::device, largest), host(Place::host, largest);
  prepare_to_receive(in);
  Lack lack;
  for (size_t bytes : sizes) exchange(out, in, bytes);
  if (setting("TEST_LACKS") == "space") return;
  for (size_t bytes : sizes) exchange(out, host, bytes);
  for (size_t bytes : sizes) exchange(host, in, bytes);
}

RANK_TEST(resources, M13_messages_go_on_when_something_is_lost_later, 2) {
  if (partner() == MPI_PROC_NULL) return;
  Memory out(Place::device, largest), in(Place::device, largest);
  for (size_t bytes : sizes) exchange(out, in, bytes);
  Memory fresh(Place::device, largest);
  Lack lack;
  for (size_t bytes : sizes) exchange(out, in, bytes);
  for (size_t bytes : sizes) exchange(fresh, in, bytes);
}

// The sender has left for a barrier when its message is received (M6).
RANK_TEST(resources, M13_a_message_is_received_after_its_sender_has_left, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) {
    for ([[maybe_unused]] size_t bytes : sizes) MUST(MPI_Barrier(MPI_COMM_WORLD));
    return;
  }
  Memory out(Place::device, largest), in(Place::device, largest);
  prepare_to_receive(in);
  Lack lack;
  for (size_t bytes : sizes) {
    const int count = static_cast<int>(bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank % 2 == 0) {
      out.fill(bytes);
      MUST(MPI_Isend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
    } else {
      in.clear();
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      if (MUST(MPI_Recv(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)))
        EXPECT_HOLDS(in, bytes, bytes);
    }
    if (rank % 2 == 0) MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}

// Where only an arena of 64 KiB was to be had (FAIRLEAD_IPC=off FAIRLEAD_POOLS=node:64k
// FAIRLEAD_PIECES=staging:4k), a longer message finds no place to stay in while its sender is in a barrier.
RANK_TEST(resources, M13_a_message_that_is_given_up_is_an_error_on_both_sides, 2) {
  const int peer = partner(), count = static_cast<int>(largest);
  if (peer == MPI_PROC_NULL || setting("FAIRLEAD_POOLS") != "node:64k") return;
  Memory out(Place::device, largest), in(Place::device, largest);
  exchange(out, in, 4096);
  MPI_Request request = MPI_REQUEST_NULL;
  {
    Lack lack;
    if (rank % 2 == 0) MUST(MPI_Isend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
  if (rank % 2 == 0)
    EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
  else
    EXPECT_ERROR(MPI_Recv(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
  exchange(out, in, largest);
}

RANK_TEST(resources, M13_collectives_end, 2) {
  constexpr int count = 1000;
  Memory mine(Place::device, count * sizeof(int)), sum(Place::device, count * sizeof(int));
  std::vector<int> numbers(count, rank + 1), result(count);
  mine.write(numbers.data(), count * sizeof(int));
  Lack lack;
  if (MUST(MPI_Allreduce(mine, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD))) {
    sum.read(result.data(), count * sizeof(int));
    EXPECT(result[count - 1] == size * (size + 1) / 2, "the sum is %d", result[count - 1]);
  }
  if (MUST(MPI_Bcast(mine, count, MPI_INT, 0, MPI_COMM_WORLD))) {
    mine.read(result.data(), count * sizeof(int));
    EXPECT(result[count - 1] == 1, "rank 0 sent %d", result[count - 1]);
  }
  MUST(MPI_Barrier(MPI_COMM_WORLD));
}

// A rank that has no memory for a copy of its buffer takes part all the same, because the others do not know.
// Where they pass host memory, the buffer is staged as a whole; else, between nodes, in segments.
RANK_TEST(resources, M13_a_collective_ends_if_one_rank_has_no_memory, 2) {
  constexpr int bytes = 48 << 20;
  auto bcast_init =
      mpi4::find<int(void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request*)>("MPI_Bcast_init");
  const bool lacks = setting("TEST_LACKS") == "space" && lacks_on(rank);
  for (const Form form : {Form::blocking, Form::nonblocking, Form::persistent}) {
    const bool persistent = form == Form::persistent;
    if (persistent && (!bcast_init || setting("FAIRLEAD_PIECES") != "collective:1g")) continue;
    Memory block(lacks || persistent ? Place::device : Place::host, bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (persistent) MUST(bcast_init(block, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    int result = MPI_SUCCESS;
    {
      Lack lack;
      if (form == Form::blocking) result = MPI_Bcast(block, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      if (form == Form::nonblocking) MUST(MPI_Ibcast(block, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request));
      if (persistent) MUST(MPI_Start(&request));
      if (request != MPI_REQUEST_NULL) result = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    EXPECT_ERROR(result, lacks ? MPI_ERR_OTHER : MPI_SUCCESS);
    if (persistent) MUST(MPI_Request_free(&request));
  }
}

// Between nodes such blocks are messages, of host and of device memory.
RANK_TEST(resources, M13_blocks_end_if_their_receiver_has_no_memory, 2) {
  constexpr int bytes = 48 << 20;
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  const auto lacks = [](int one) { return setting("TEST_LACKS") == "space" && lacks_on(one); };
  std::vector<int> sends(static_cast<size_t>(size)), receives(sends), at(sends);
  if (!lacks(rank)) sends[static_cast<size_t>(to)] = bytes;
  if (!lacks(from)) receives[static_cast<size_t>(from)] = bytes;
  const Memory received(Place::device, bytes);
  for (const Place place : {Place::host, Place::device}) {
    const Memory sent(place, bytes);
    int result = MPI_SUCCESS;
    {
      Lack lack;
      result = MPI_Alltoallv(sent, sends.data(), at.data(), MPI_BYTE, received, receives.data(), at.data(),
                             MPI_BYTE, MPI_COMM_WORLD);
    }
    EXPECT((result != MPI_SUCCESS) == lacks(rank), "error %d", result);
  }
}

RANK_TEST(resources, M13_windows_serve, 2) {
  constexpr size_t bytes = 4096;
  Memory window(Place::device, bytes), from(Place::device, bytes);
  from.fill(key_of(static_cast<uint64_t>(rank)));
  // The host MPI cannot make a window without files either.
  std::optional<Lack> lack;
  const bool lacks_files = setting("TEST_LACKS").starts_with("file");
  if (!lacks_files) lack.emplace();
  MPI_Win win = MPI_WIN_NULL;
  if (!MUST(MPI_Win_create(window, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win))) return;
  if (lacks_files) lack.emplace();
  const int to = (rank + 1) % size, source = (rank + size - 1) % size;
  MUST(MPI_Win_fence(0, win));
  MUST(MPI_Put(from, bytes, MPI_BYTE, to, 0, bytes, MPI_BYTE, win));
  MUST(MPI_Win_fence(0, win));
  EXPECT_HOLDS(window, key_of(static_cast<uint64_t>(source)), bytes);
  MUST(MPI_Win_free(&win));
}

// Of other memory each time, so that it bounces in the sender's device memory until it is mapped.
RANK_TEST(arena, messages_that_bounce_take_no_memory_of_the_host, 2) {
  const auto node_memory = [] {
    size_t bytes = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      uintptr_t begin = 0, end = 0;
      if (line.find("memfd:fairlead (") != std::string::npos &&
          sscanf(line.c_str(), "%zx-%zx", &begin, &end) == 2)
        bytes += end - begin;
    }
    return bytes;
  };
  if (partner() == MPI_PROC_NULL || host_oracle) return;
  const size_t before = node_memory();
  EXPECT(before > 0, "there is no segment");
  for (int i = 0; i < 3; ++i) {
    Memory out(Place::device, largest), in(Place::device, largest);
    exchange(out, in, 64);
  }
  EXPECT(node_memory() == before, "%zu bytes of node memory became %zu", before, node_memory());
}
