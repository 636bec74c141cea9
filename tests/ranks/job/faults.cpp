// SPDX-License-Identifier: Apache-2.0
//
// Messages stay right when resources run out, processes fork, and ranks vanish: more sends than offers, no
// device memory left, allocations that come and go, children. What else is refused, slow or fails is in the
// environment of ctest `faults.*`.

#include <fairlead/device.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 43;

int count_of(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

void send(const Memory& out, int peer) {
  MUST(MPI_Send(out, count_of(out), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
}

void receive(const Memory& in, int peer, uint64_t key) {
  MUST(MPI_Recv(in, count_of(in), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_HOLDS(in, key, in.bytes());
}

void exchange(int peer, uint64_t round) {
  for (size_t bytes : {size_t{100}, size_t{4096}, size_t{300000}}) {
    Memory buffer(Place::device, bytes);
    if (rank < peer) {
      buffer.fill(key_of(round, bytes));
      send(buffer, peer);
    } else {
      receive(buffer, peer, key_of(round, bytes));
    }
  }
}

// All that is left of the current device's memory, down to `smallest` bytes.
class RestOfDevice {
 public:
  explicit RestOfDevice(size_t smallest) {
    if (host_oracle) return;
    for (size_t bytes = size_t{1} << 30; bytes >= smallest;) {
      void* address = nullptr;
      if (fairlead_device_malloc(&address, bytes) == FAIRLEAD_DEVICE_SUCCESS)
        held_.push_back(address);
      else
        bytes /= 2;
    }
  }
  ~RestOfDevice() {
    for (void* address : held_) fairlead_device_free(address);
  }

 private:
  std::vector<void*> held_;
};

// All page-locked memory that simulated GPUs have left: of a real machine's it would be too much.
class RestOfPageLocked {
 public:
  RestOfPageLocked() {
    const char* limits = getenv("FAIRLEAD_SIM_LIMITS");
    if (host_oracle || !limits || !std::strstr(limits, "pinned:")) return;
    for (size_t bytes = size_t{1} << 30; bytes > 0;) {
      void* address = nullptr;
      if (fairlead_device_malloc_host(&address, bytes) == FAIRLEAD_DEVICE_SUCCESS)
        held_.push_back(address);
      else
        bytes /= 2;
    }
  }
  ~RestOfPageLocked() {
    for (void* address : held_) fairlead_device_free_host(address);
  }

 private:
  std::vector<void*> held_;
};

// Runs `body` in a child, and returns what waitpid() tells.
template <class Body>
int run_child(Body body) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    rearm_watchdog();
    _exit(body());
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) give_up("no child");
  return status;
}

}  // namespace

RANK_TEST(faults, more_sends_in_flight_than_offers, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int messages = 700;  // a rank has 256 offers
  constexpr size_t bytes = 3000;
  for (int round = 0; round < 2; ++round) {
    std::vector<Memory> buffers;
    std::vector<MPI_Request> requests(messages);
    for (int i = 0; i < messages; ++i) buffers.emplace_back(Place::device, bytes);
    if (rank < peer) {
      for (int i = 0; i < messages; ++i) {
        buffers[i].fill(key_of(i, round));
        MUST(MPI_Isend(buffers[i], bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]));
      }
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, messages, MPI_COMM_WORLD));
    } else {
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, messages, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      for (int i = messages; i-- > 0;)
        MUST(MPI_Irecv(buffers[i], bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]));
    }
    MUST(MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE));
    if (rank < peer) continue;
    for (int i = 0; i < messages; ++i) EXPECT_HOLDS(buffers[i], key_of(i, round), bytes);
  }
}

RANK_TEST(faults, no_device_memory_is_left, 2) {
  // The library gets none for itself: neither a pool for late receivers nor the proof for a pair.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 50000;
  Memory out(Place::device, bytes), in(Place::device, bytes), large(Place::device, 1 << 20);
  const RestOfDevice nothing_left(64);
  for (int round = 0; round < 5; ++round) {
    out.fill(key_of(rank, round));
    if (host_oracle) {
      MUST(MPI_Sendrecv(out, bytes, MPI_BYTE, peer, tag, in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    } else {
      send(out, peer);  // eager: both send first
      MUST(MPI_Recv(in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    EXPECT_HOLDS(in, key_of(peer, round), bytes);
    if (rank < peer)
      send(large.fill(key_of(round, 1)), peer);
    else
      receive(large, peer, key_of(round, 1));
  }
}

RANK_TEST(faults, no_page_locked_memory_is_left, 2) {
  // The library gets none for itself either: arenas, slots and pieces of messages are ordinary memory then.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  const RestOfPageLocked nothing_left;
  constexpr size_t bytes = 3 << 20;
  Memory out(Place::device, bytes), in(Place::device, bytes), host(Place::host, bytes);
  for (int round = 0; round < 3; ++round) {
    exchange(peer, round);
    exchange(peer, round);
    for (const Memory* to : {&in, &host}) {
      MPI_Request requests[2];
      out.fill(key_of(rank, round));
      MUST(MPI_Irecv(*to, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
      MUST(MPI_Isend(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
      MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
      EXPECT_HOLDS(*to, key_of(peer, round), bytes);
    }
  }
}

RANK_TEST(faults, M12_ten_thousand_allocations_at_the_same_address, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t sizes[] = {3000, 3000, 5000, 8192};
  for (int round = 0; round < 10000; ++round) {
    if (round % 1000 == 0) rearm_watchdog();
    const size_t bytes = sizes[round % std::size(sizes)];
    Memory buffer(Place::device, bytes);
    if (rank < peer)
      send(buffer.fill(key_of(round, 2)), peer);
    else
      receive(buffer, peer, key_of(round, 2));
  }
}

RANK_TEST(faults, children_do_no_harm, 2) {
  // Children that leave at once, run programs, or try what they must not; the parent goes on.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Memory buffer(Place::device, 200000);
  exchange(peer, 0);
  for (int round = 0; round < 3; ++round) {
    MPI_Request request;
    if (rank < peer)
      MUST(MPI_Isend(buffer.fill(key_of(round, 3)), count_of(buffer), MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD,
                     &request));
    else
      MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, &request));
    EXPECT(run_child([] { return 7; }) == 7 << 8, "a child that leaves at once fails");
    EXPECT(run_child([]() -> int { exit(0); }) == 0, "a child that leaves by exit() fails");
    EXPECT(run_child([] { return execl("/bin/true", "true", nullptr); }) == 0,
           "a child that runs a program fails");
    EXPECT(run_child([&] {
             if (host_oracle) return 0;
             char byte;  // refused: a child has no GPU
             return fairlead_device_copy(&byte, buffer, 1) == FAIRLEAD_DEVICE_SUCCESS ? 1 : 0;
           }) == 0,
           "a child uses its parent's GPU, or dies of trying");
    EXPECT(system("true") == 0, "system() fails");
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (rank > peer) EXPECT_HOLDS(buffer, key_of(round, 3), buffer.bytes());
    exchange(peer, round);
  }
}

RANK_TEST(faults, a_rank_is_killed_in_mid_transfer, 2) {
  // For ctest `faults.killed`: the job ends, by an MPI error or by the launcher, and nobody waits for ever.
  const char* killed = getenv("TEST_KILL_RANK");
  if (killed == nullptr) return;
  const int victim = atoi(killed);
  constexpr int messages = 8;
  std::vector<Memory> out, in;
  std::vector<MPI_Request> requests;
  for (int i = 0; i < messages; ++i) {
    for (int other = 0; other < size; ++other) {
      if (other == rank || (rank != victim && other != victim)) continue;
      out.emplace_back(Place::device, 4 << 20);
      in.emplace_back(Place::device, 4 << 20);
      requests.resize(requests.size() + 2);
      MPI_Isend(out.back(), 4 << 20, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[requests.size() - 2]);
      MPI_Irecv(in.back(), 4 << 20, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests.back());
    }
  }
  const int count = static_cast<int>(requests.size());
  if (rank == victim) {
    int done = 0, index;
    for (int i = 0; i < 3; ++i) MPI_Testany(count, requests.data(), &index, &done, MPI_STATUS_IGNORE);
    printf("rank %d is killed\n", rank);
    fflush(stdout);
    raise(SIGKILL);
  }
  at(__FILE__, __LINE__, "Waitall for a rank that is gone");
  MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

RANK_TEST(faults, a_send_beyond_its_allocation, 2) {
  // For ctest `faults.fatal_error` and `faults.returned_error`. A real GPU may find other memory there.
  const char* errors = getenv("TEST_ERRORS");
  if (errors == nullptr) return;
  constexpr int asked = 1 << 16;
  Memory small(Place::device, 4096), large(Place::device, asked);
  if (rank == 0) EXPECT_ERROR(MPI_Send(small, asked, MPI_BYTE, 1, tag, MPI_COMM_WORLD), MPI_ERR_OTHER);
  if (rank == 1)
    EXPECT_ERROR(MPI_Recv(large, asked, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
}

RANK_TEST(faults, a_rank_is_late_for_a_collective, 2) {
  // For ctest `faults.late`: the others say which ranks they wait for.
  const char* seconds = getenv("TEST_LATE_S");
  if (seconds == nullptr) return;
  Memory buffer(Place::device, 4 << 20);
  buffer.fill(0);
  // The first makes communicators.
  MUST(MPI_Allreduce(MPI_IN_PLACE, buffer, count_of(buffer) / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  if (rank % 2 == 0) sleep(static_cast<unsigned>(atoi(seconds)));
  MUST(MPI_Allreduce(MPI_IN_PLACE, buffer, count_of(buffer) / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
}

RANK_TEST(faults, a_rank_is_late_for_the_messages_of_a_collective, 2) {
  // For ctest `faults.late_messages`.
  const char* seconds = getenv("TEST_LATE_S");
  if (seconds == nullptr) return;
  Memory out(Place::device, static_cast<size_t>(size)), in(Place::device, static_cast<size_t>(size));
  out.fill(0);
  const std::vector<int> counts(static_cast<size_t>(size), 1);
  std::vector<int> offsets(counts.size());
  std::iota(offsets.begin(), offsets.end(), 0);
  // The first makes a communicator.
  for (bool late : {false, true}) {
    if (late && rank == 0) sleep(static_cast<unsigned>(atoi(seconds)));
    MPI_Request request;
    if (!late)
      MUST(MPI_Alltoallv(out, counts.data(), offsets.data(), MPI_BYTE, in, counts.data(), offsets.data(),
                         MPI_BYTE, MPI_COMM_WORLD));
    MUST(MPI_Ialltoallv(out, counts.data(), offsets.data(), MPI_BYTE, in, counts.data(), offsets.data(),
                        MPI_BYTE, MPI_COMM_WORLD, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}

RANK_TEST(faults, a_rank_is_late_for_the_end, 2) {
  // For ctest `faults.late_end`: the attribute is deleted in MPI_Finalize.
  if (getenv("TEST_LATE_S") == nullptr || rank != 0) return;
  int keyval = MPI_KEYVAL_INVALID;
  auto wait = [](MPI_Comm, int, void*, void*) -> int {
    sleep(static_cast<unsigned>(atoi(getenv("TEST_LATE_S"))));
    return MPI_SUCCESS;
  };
  MUST(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait, &keyval, nullptr));
  MUST(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr));
}

RANK_TEST(faults, a_rank_cannot_copy_what_a_collective_needs, 2) {
  // For ctest `faults.lame`, where no copy of a rank of odd number succeeds: it gets an error, and nobody
  // waits.
  if (getenv("TEST_LAME") == nullptr) return;
  void* buffer = nullptr;
  EXPECT(fairlead_device_malloc(&buffer, 1000) == 0, "no device memory");
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  const bool lame = rank % 2 == 1;
  const int blocking = MPI_Allreduce(MPI_IN_PLACE, buffer, 10, MPI_INT, MPI_SUM, comm);
  EXPECT((blocking != MPI_SUCCESS) == lame, "the blocking form returned %d", blocking);
  MPI_Request request = MPI_REQUEST_NULL;
  MUST(MPI_Iallreduce(MPI_IN_PLACE, buffer, 10, MPI_INT, MPI_SUM, comm, &request));
  const int nonblocking = MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT((nonblocking != MPI_SUCCESS) == lame, "the nonblocking form returned %d", nonblocking);
  MUST(MPI_Comm_free(&comm));
  EXPECT(fairlead_device_free(buffer) == 0, "the buffer is not freed");
}
