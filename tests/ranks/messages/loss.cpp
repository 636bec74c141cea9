// SPDX-License-Identifier: Apache-2.0
//
// Where no way is left to bring the bytes over, both ends return an error, through the error handler: nothing
// hangs and nothing is silent. For a simulated GPU whose copies all fail and processes that share no device
// memory (FAIRLEAD_SIM_FAULTS=copies:1 FAIRLEAD_IPC=off); elsewhere nothing can be lost, and the cases say
// nothing.

#include <cstdlib>
#include <cstring>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 41;
constexpr size_t sizes[] = {4096, 1 << 20};

bool is(const char* variable, const char* value) {
  const char* text = getenv(variable);
  return text && strcmp(text, value) == 0;
}

bool all_copies_fail() {
  return is("FAIRLEAD_SIM_FAULTS", "copies:1") && is("FAIRLEAD_IPC", "off");
}

// Device memory that is not written to: that would fail as well.
class Unwritten {
 public:
  explicit Unwritten(size_t bytes) : address_(allocate(Place::device, bytes)) {}
  ~Unwritten() { deallocate(Place::device, address_); }
  operator void*() const { return address_; }

 private:
  void* address_;
};

void expect_error(int result, const char* what, size_t bytes) {
  EXPECT(result != MPI_SUCCESS, "%s of %zu bytes succeeded", what, bytes);
}

}  // namespace

RANK_TEST(loss, a_send_that_cannot_be_read_returns_an_error, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL || !all_copies_fail()) return;
  Unwritten buffer(1 << 20);
  for (size_t bytes : sizes) {
    const int count = static_cast<int>(bytes);
    MPI_Request request;
    if (rank < peer) {
      expect_error(CALL(MPI_Send(buffer, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD)), "Send", bytes);
      int result = CALL(MPI_Isend(buffer, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      if (result == MPI_SUCCESS) result = CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
      expect_error(result, "Isend and Wait", bytes);
    } else {
      for (int i = 0; i < 2; ++i)
        expect_error(CALL(MPI_Recv(buffer, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
                     "Recv", bytes);
    }
  }
}

RANK_TEST(loss, a_receive_that_cannot_be_written_returns_an_error, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL || !all_copies_fail()) return;
  Unwritten buffer(1 << 20);
  std::vector<char> host(1 << 20);
  for (size_t bytes : sizes) {
    const int count = static_cast<int>(bytes);
    if (rank < peer)
      MUST(MPI_Send(host.data(), count, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    else
      expect_error(CALL(MPI_Recv(buffer, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
                   "Recv", bytes);
  }
}

// The host MPI writes to device memory, and nobody can read there whether it is a header.
RANK_TEST(loss, a_native_receive_that_cannot_be_read_back_returns_an_error, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL || !is("FAIRLEAD_NETWORK", "native")) return;
  constexpr int blocks = 50000, block = 8;
  Unwritten buffer(2 * blocks * block);
  MPI_Datatype gaps;
  MUST(MPI_Type_vector(blocks, block, 2 * block, MPI_BYTE, &gaps));
  MUST(MPI_Type_commit(&gaps));
  // No header comes before the receiver has permitted it.
  int refused = 0;
  for (int attempt = 0; attempt < 1000 && !refused; ++attempt) {
    if (rank < peer) {
      MUST(MPI_Send(buffer, 1, gaps, peer, tag, MPI_COMM_WORLD));
      MUST(MPI_Recv(&refused, 1, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
      refused = CALL(MPI_Recv(buffer, blocks * block, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE)) != MPI_SUCCESS;
      MUST(MPI_Send(&refused, 1, MPI_INT, peer, tag, MPI_COMM_WORLD));
    }
  }
  EXPECT(refused, "1000 receives of %d bytes succeeded", blocks * block);
  MUST(MPI_Type_free(&gaps));
}
