// SPDX-License-Identifier: Apache-2.0
//
// Processes that find each other by a port (MPI 4.1, 11.9): device memory works on the inter-communicator
// that MPI_Comm_accept and MPI_Comm_connect make.

#include <cstring>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 61;
constexpr size_t sizes[] = {8, 96, 4096, 100'000, 5 << 20};

// With the partner alone, which stands for a process of another job.
MPI_Comm connect_with(int peer) {
  MPI_Comm other = MPI_COMM_NULL;
  char port[MPI_MAX_PORT_NAME] = "";
  if (rank < peer) {
    const int opened = MPI_Open_port(MPI_INFO_NULL, port);
    if (opened != MPI_SUCCESS) port[0] = '\0';
    MUST(MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, peer, tag, MPI_COMM_WORLD));
    if (!*port) return other;
    MUST(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
    MUST(MPI_Close_port(port));
  } else {
    MUST(MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (*port) MUST(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
  }
  return other;
}

}  // namespace

RANK_TEST(connected, M1_messages_of_all_ends_arrive, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  MPI_Comm other = connect_with(peer);
  if (other == MPI_COMM_NULL) return skip("this MPI opens no port");
  for (Place from : host_and_device)
    for (Place to : host_and_device)
      for (size_t bytes : sizes) {
        const int count = static_cast<int>(bytes);
        const uint64_t mine = key_of(static_cast<uint64_t>(rank), bytes),
                       its = key_of(static_cast<uint64_t>(peer), bytes);
        Memory out(rank < peer ? from : to, bytes), in(rank < peer ? from : to, bytes);
        out.fill(mine);
        MPI_Status status;
        if (!MUST(MPI_Sendrecv(out, count, MPI_BYTE, 0, tag, in, count, MPI_BYTE, 0, tag, other, &status)))
          continue;
        EXPECT_STATUS(status, 0, tag, bytes);
        EXPECT_HOLDS(in, its, bytes);
      }
  // What is under way when the communicator is given up arrives.
  Memory out(Place::device, 4096), in(Place::device, 4096);
  out.fill(key_of(static_cast<uint64_t>(rank)));
  MPI_Request requests[2];
  MUST(MPI_Irecv(in, 4096, MPI_BYTE, 0, tag, other, &requests[0]));
  MUST(MPI_Isend(out, 4096, MPI_BYTE, 0, tag, other, &requests[1]));
  MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  MUST(MPI_Comm_disconnect(&other));
  EXPECT_HOLDS(in, key_of(static_cast<uint64_t>(peer)), 4096);
}

RANK_TEST(connected, collectives_of_both_sides, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  MPI_Comm other = connect_with(peer);
  if (other == MPI_COMM_NULL) return skip("this MPI opens no port");
  constexpr int count = 1000;
  std::vector<int> numbers(count, rank + 1), result(count);
  Memory mine(Place::device, count * sizeof(int)), sum(Place::device, count * sizeof(int));
  mine.write(numbers.data(), count * sizeof(int));
  // That of the other side.
  if (MUST(MPI_Allreduce(mine, sum, count, MPI_INT, MPI_SUM, other))) {
    sum.read(result.data(), count * sizeof(int));
    EXPECT(result[count - 1] == peer + 1, "the sum is %d", result[count - 1]);
  }
  MUST(MPI_Comm_disconnect(&other));
}
