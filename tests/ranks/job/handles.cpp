// SPDX-License-Identifier: Apache-2.0
//
// M8: what a program may free while a message is under way, it may free: communicators, datatypes and
// requests of active and inactive operations; and its error handlers stay its own.

#include <cstdlib>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 37;
constexpr size_t sizes[] = {8, 4096, 200000};

void signal_to(int peer) {
  MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD));
}
void await_signal(int peer) {
  MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

// Types that take the place of one that was freed, in an MPI that numbers them anew.
class OtherTypes {
 public:
  OtherTypes() {
    for (MPI_Datatype& type : types_) {
      MPI_Type_contiguous(3, MPI_CHAR, &type);
      MPI_Type_commit(&type);
    }
  }
  ~OtherTypes() {
    for (MPI_Datatype& type : types_) MPI_Type_free(&type);
  }

 private:
  MPI_Datatype types_[8];
};

int attributes_copied = 0, attributes_deleted = 0;

int note_copy(MPI_Datatype, int, void*, void* from, void* to, int* flag) {
  ++attributes_copied;
  *static_cast<void**>(to) = from;
  *flag = 1;
  return MPI_SUCCESS;
}
int note_delete(MPI_Datatype, int, void*, void*) {
  ++attributes_deleted;
  return MPI_SUCCESS;
}

}  // namespace

RANK_TEST(handles, M8_a_communicator_is_freed_while_messages_are_pending, 2) {
  const int peer = partner();
  for (size_t bytes : sizes) {
    for (Place to : host_and_device) {
      MPI_Comm comm;
      MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
      Memory buffer(rank < peer ? Place::device : to, bytes);
      MPI_Request request = MPI_REQUEST_NULL;
      if (peer != MPI_PROC_NULL && rank < peer) {
        await_signal(peer);  // its receive is pending, and its communicator free
        buffer.fill(key_of(bytes));
        MUST(MPI_Isend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm, &request));
        MUST(MPI_Comm_free(&comm));
      } else if (peer != MPI_PROC_NULL) {
        MUST(MPI_Irecv(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm, &request));
        MUST(MPI_Comm_free(&comm));
        signal_to(peer);
      } else {
        MUST(MPI_Comm_free(&comm));
      }
      MPI_Status status;
      MUST(MPI_Wait(&request, &status));
      if (peer == MPI_PROC_NULL || rank < peer) continue;
      EXPECT_STATUS(status, peer, tag, bytes);
      EXPECT_HOLDS(buffer, key_of(bytes), bytes);
    }
  }
}

RANK_TEST(handles, M8_a_communicator_is_freed_while_its_persistent_requests_exist, 2) {
  const int peer = partner();
  for (size_t bytes : sizes) {
    for (Place to : host_and_device) {
      MPI_Comm comm;
      MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
      Memory buffer(rank < peer ? Place::device : to, bytes);
      MPI_Request request = MPI_REQUEST_NULL;
      if (peer != MPI_PROC_NULL && rank < peer)
        MUST(MPI_Send_init(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm, &request));
      else if (peer != MPI_PROC_NULL)
        MUST(MPI_Recv_init(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm, &request));
      MUST(MPI_Comm_free(&comm));
      EXPECT(comm == MPI_COMM_NULL, "a freed communicator is not null");
      MPI_Comm in_its_place;
      MUST(MPI_Comm_dup(MPI_COMM_WORLD, &in_its_place));
      for (int round = 0; round < 3 && peer != MPI_PROC_NULL; ++round) {
        if (rank < peer) buffer.fill(key_of(bytes, round));
        MUST(MPI_Start(&request));
        MPI_Status status;
        MUST(MPI_Wait(&request, &status));
        if (rank < peer) continue;
        EXPECT_STATUS(status, peer, tag, bytes);
        EXPECT_HOLDS(buffer, key_of(bytes, round), bytes);
      }
      if (peer != MPI_PROC_NULL) MUST(MPI_Request_free(&request));
      MUST(MPI_Comm_free(&in_its_place));
    }
  }
}

RANK_TEST(handles, M8_a_datatype_is_freed_while_its_persistent_requests_exist, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int blocks = 64, block = 8, stride = 16;
  constexpr size_t span = (blocks - 1) * stride + block;
  MPI_Datatype comb;
  MUST(MPI_Type_vector(blocks, block, stride, MPI_BYTE, &comb));
  MUST(MPI_Type_commit(&comb));
  Memory buffer(Place::device, span);
  MPI_Request request;
  if (rank < peer)
    MUST(MPI_Send_init(buffer, 1, comb, peer, tag, MPI_COMM_WORLD, &request));
  else
    MUST(MPI_Recv_init(buffer, 1, comb, peer, tag, MPI_COMM_WORLD, &request));
  MUST(MPI_Type_free(&comb));
  OtherTypes in_its_place;
  for (int round = 0; round < 3; ++round) {
    if (rank < peer) buffer.fill(key_of(round, 1));
    MUST(MPI_Start(&request));
    MPI_Status status;
    MUST(MPI_Wait(&request, &status));
    if (rank < peer) continue;
    EXPECT_STATUS(status, peer, tag, static_cast<size_t>(blocks * block));
    std::vector<char> found(span), sent(span);
    buffer.read(found.data(), span);
    write_pattern(key_of(round, 1), sent.data(), span);
    int wrong = 0;
    for (size_t i = 0; i < span; ++i) wrong += i % stride < block && found[i] != sent[i];
    EXPECT(wrong == 0, "round %d: %d bytes are wrong", round, wrong);
  }
  MUST(MPI_Request_free(&request));
}

RANK_TEST(handles, M8_a_datatype_is_freed_while_its_receive_is_pending, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place to : host_and_device) {
    for (int count : {1, 40, 3000}) {
      MPI_Datatype triple;
      MUST(MPI_Type_contiguous(100, MPI_BYTE, &triple));
      MUST(MPI_Type_commit(&triple));
      const size_t bytes = static_cast<size_t>(count) * 100;
      Memory buffer(rank < peer ? Place::device : to, bytes);
      MPI_Request request;
      if (rank < peer) {
        await_signal(peer);
        buffer.fill(key_of(bytes, 2));
        MUST(MPI_Isend(buffer, count, triple, peer, tag, MPI_COMM_WORLD, &request));
        MUST(MPI_Type_free(&triple));
        OtherTypes in_its_place;
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      } else {
        MUST(MPI_Irecv(buffer, count, triple, peer, tag, MPI_COMM_WORLD, &request));
        MUST(MPI_Type_free(&triple));
        OtherTypes in_its_place;
        signal_to(peer);
        MPI_Status status;
        MUST(MPI_Wait(&request, &status));
        EXPECT_STATUS(status, peer, tag, bytes);
        EXPECT_HOLDS(buffer, key_of(bytes, 2), bytes);
      }
    }
  }
}

RANK_TEST(handles, M8_messages_leave_attributes_of_their_datatype_alone, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  int keyval;
  MUST(MPI_Type_create_keyval(note_copy, note_delete, &keyval, nullptr));
  MPI_Datatype pair;
  MUST(MPI_Type_contiguous(2, MPI_INT, &pair));
  MUST(MPI_Type_commit(&pair));
  MUST(MPI_Type_set_attr(pair, keyval, nullptr));
  for (Place to : host_and_device) {
    Memory buffer(rank < peer ? Place::device : to, 8000);
    MPI_Request request;
    if (rank < peer)
      MUST(MPI_Isend(buffer, 1000, pair, peer, tag, MPI_COMM_WORLD, &request));
    else
      MUST(MPI_Irecv(buffer, 1000, pair, peer, tag, MPI_COMM_WORLD, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT(attributes_copied == 0 && attributes_deleted == 0, "%d attributes are copied, %d deleted",
           attributes_copied, attributes_deleted);
  }
  MUST(MPI_Type_free(&pair));
  MUST(MPI_Type_free_keyval(&keyval));
}

RANK_TEST(handles, a_persistent_request_is_never_freed, 1) {
  // For ctest `leaks.are_found`: the check of leaks sees one.
  if (getenv("TEST_LEAK") == nullptr) return;
  static const Memory buffer(Place::device, 1000);
  MPI_Request request;
  MUST(MPI_Send_init(buffer, 1000, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request));
}

RANK_TEST(handles, a_send_is_never_completed, 1) {
  // For ctest `leaks.name_the_call`. The message is received, so that MPI_Finalize can end.
  if (getenv("TEST_LEAK") == nullptr) return;
  constexpr int bytes = 512 << 10;
  static const Memory from(Place::device, bytes), to(Place::device, bytes);
  MPI_Request request;
  MUST(MPI_Isend(from, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request));
  MUST(MPI_Recv(to, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}
