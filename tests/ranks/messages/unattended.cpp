// SPDX-License-Identifier: Apache-2.0
//
// The progress thread: nonblocking operations come to their end while no rank makes a call of MPI. Each rank
// looks into its own buffer until the bytes are there. Passing means ending: the watchdog tells where they
// never come.

#include <sched.h>

#include <functional>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 23;
constexpr size_t sizes[] = {16 << 20, (17 << 20) + 3};

const char* why_not() {
  const char* thread = getenv("FAIRLEAD_PROGRESS_THREAD");
  return !host_oracle && thread && std::string(thread) == "on" ? nullptr
                                                               : "needs FAIRLEAD_PROGRESS_THREAD=on";
}

void await(const std::function<bool()>& there) {
  while (!there()) sched_yield();
}

void await(const Memory& memory, uint64_t key) {
  std::string why;
  await([&] { return memory.holds(key, memory.bytes(), &why); });
}

int count_of(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

}  // namespace

RANK_TEST(unattended, M7_messages_arrive_while_both_ranks_compute, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  for (Place to : host_and_device)
    for (size_t bytes : sizes)
      for (bool receives_first : {true, false}) {
        if (peer == MPI_PROC_NULL) continue;
        Memory sent(Place::device, bytes), received(to, bytes);
        sent.fill(key_of(bytes, rank));
        MPI_Request requests[2];
        auto receive = [&] {
          MUST(MPI_Irecv(received, count_of(received), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
        };
        if (receives_first) receive();
        MUST(MPI_Isend(sent, count_of(sent), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
        if (!receives_first) receive();
        await(received, key_of(bytes, peer));
        MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        EXPECT_HOLDS(received, key_of(bytes, peer), bytes);
      }
}

RANK_TEST(unattended, M7_messages_of_persistent_requests_arrive_too, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 16 << 20;
  Memory sent(Place::device, bytes), received(Place::device, bytes);
  MPI_Request requests[2];
  MUST(MPI_Recv_init(received, count_of(received), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
  MUST(MPI_Send_init(sent, count_of(sent), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
  for (int round = 0; round < 3; ++round) {
    sent.fill(key_of(round, rank));
    MUST(MPI_Startall(2, requests));
    await(received, key_of(round, peer));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  }
  for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
}

RANK_TEST(unattended, M7_many_messages_arrive_at_a_rank_that_computes, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 16 << 20;
  constexpr int messages = 5;
  std::vector<Memory> buffers;
  std::vector<MPI_Request> requests(messages);
  const bool sends = rank < peer;
  for (int i = 0; i < messages; ++i) {
    Memory& buffer = buffers.emplace_back(Place::device, bytes);
    if (sends)
      MUST(MPI_Isend(buffer.fill(key_of(i)), count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                     &requests[i]));
    else
      MUST(MPI_Irecv(buffer, count_of(buffer), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[i]));
  }
  if (!sends)
    for (int i = 0; i < messages; ++i) await(buffers[i], key_of(i));
  MUST(MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE));
}

RANK_TEST(unattended, M7_a_collective_ends_while_all_ranks_compute, 2) {
  if (const char* reason = why_not()) return skip(reason);
  for (size_t bytes : {8, 1 << 20, 5 << 20}) {
    Memory buffer(Place::device, bytes);
    if (rank == 0) buffer.fill(key_of(bytes));
    MPI_Request request;
    MUST(MPI_Ibcast(buffer, count_of(buffer), MPI_BYTE, 0, MPI_COMM_WORLD, &request));
    await(buffer, key_of(bytes));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}
