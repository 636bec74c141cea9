// SPDX-License-Identifier: Apache-2.0
//
// M11: a message arrives whole wherever its two ends lie and however they are addressed: every pair of
// memory kinds, self-sends, zero counts, null pointers, MPI_PROC_NULL, offsets, odd addresses, every
// predefined type, large messages, other communicators; a layout that is not handled gives an error.

#include <algorithm>
#include <cstdlib>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 29;
constexpr size_t sizes[] = {0, 1, 64, 65, 5000, 65536, 65537, 700001};

// The lower rank of a pair sends `bytes` bytes to the upper one.
void transfer(Place from, Place to, size_t bytes, size_t from_offset = 0, size_t to_offset = 0) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  const uint64_t key = key_of(bytes, from_offset, to_offset);
  const int count = static_cast<int>(bytes);
  if (rank < peer) {
    Memory out(from, bytes, from_offset);
    out.fill(key);
    MUST(MPI_Send(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    EXPECT_HOLDS(out, key, bytes);
  } else {
    Memory in(to, bytes, to_offset);
    MPI_Status status;
    if (!MUST(MPI_Recv(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status))) return;
    EXPECT_STATUS(status, peer, tag, bytes);
    EXPECT_HOLDS(in, key, bytes);
  }
}

// Sends around a ring in `comm` from device memory into device memory, by position in that communicator.
void ring(MPI_Comm comm, size_t bytes) {
  int position, members;
  MPI_Comm_rank(comm, &position);
  MPI_Comm_size(comm, &members);
  const int right = (position + 1) % members, left = (position + members - 1) % members;
  Memory out(Place::device, bytes), in(Place::device, bytes);
  out.fill(key_of(position, bytes));
  MPI_Status status;
  if (!MUST(MPI_Sendrecv(out, static_cast<int>(bytes), MPI_BYTE, right, tag, in, static_cast<int>(bytes),
                         MPI_BYTE, left, tag, comm, &status)))
    return;
  EXPECT_STATUS(status, left, tag, bytes);
  EXPECT_HOLDS(in, key_of(left, bytes), bytes);
}

}  // namespace

RANK_TEST(ends, M11_every_pair_of_memory_kinds, 2) {
  for (Place from : all_places)
    for (Place to : all_places)
      for (size_t bytes : sizes) transfer(from, to, bytes);
}

RANK_TEST(ends, M11_offsets_and_odd_addresses, 2) {
  constexpr size_t offsets[] = {0, 1, 3, 64, 4095, 4096, 70001};
  for (size_t from_offset : offsets)
    for (size_t to_offset : offsets)
      for (size_t bytes : {size_t{7}, size_t{100}, size_t{65536}, size_t{100001}})
        transfer(Place::device, from_offset % 2 == 0 ? Place::device : Place::host, bytes, from_offset,
                 to_offset);
}

RANK_TEST(ends, M11_large_messages, 2) {
  constexpr size_t large = (20 << 20) + 3;
  transfer(Place::device, Place::device, large);
  transfer(Place::device, Place::host, large);
  transfer(Place::host, Place::device, large);
}

RANK_TEST(ends, M11_messages_beyond_2_to_31_bytes, 2) {
  if (getenv("TEST_HUGE") == nullptr) return;  // asks for 7 GiB of memory in all: for real GPUs
  const int peer = partner();
  if (peer == MPI_PROC_NULL || rank > 1) return;
  constexpr size_t block = size_t{1} << 30, bytes = 3 * block;
  MPI_Datatype gibibyte;
  MUST(MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &gibibyte));
  MUST(MPI_Type_commit(&gibibyte));
  for (Place to : {Place::device, Place::host}) {
    if (rank < peer) {
      Memory out(Place::device, bytes);
      out.fill(key_of(31));
      MUST(MPI_Send(out, 3, gibibyte, peer, tag, MPI_COMM_WORLD));
    } else {
      Memory in(to, bytes);
      MPI_Status status;
      MPI_Count elements = 0;
      int count = 0;
      MUST(MPI_Recv(in, 3, gibibyte, peer, tag, MPI_COMM_WORLD, &status));
      MUST(MPI_Get_count(&status, gibibyte, &count));
      MUST(MPI_Get_elements_x(&status, gibibyte, &elements));
      EXPECT(count == 3, "counts %d times a gibibyte", count);
      EXPECT(elements == static_cast<MPI_Count>(bytes), "counts %lld bytes",
             static_cast<long long>(elements));
      EXPECT_HOLDS(in, key_of(31), bytes);
    }
  }
  MUST(MPI_Type_free(&gibibyte));
}

RANK_TEST(ends, M11_zero_counts_null_pointers_and_proc_null, 2) {
  const int peer = partner();
  Memory buffer(Place::device, 100);
  MPI_Status status;
  for (void* address : {static_cast<void*>(nullptr), static_cast<void*>(buffer)}) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MUST(MPI_Sendrecv(address, 0, MPI_INT, peer, tag, address, 0, MPI_INT, peer, tag, MPI_COMM_WORLD,
                      &status));
    MUST(MPI_Irecv(address, 0, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD, &requests[0]));
    MUST(MPI_Isend(address, 0, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD, &requests[1]));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  }
  MUST(MPI_Send(buffer, 100, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_WORLD));
  MUST(MPI_Ssend(buffer, 100, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_WORLD));
  MUST(MPI_Recv(buffer, 100, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_WORLD, &status));
  EXPECT_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  MPI_Request request;
  MUST(MPI_Irecv(buffer, 100, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_WORLD, &request));
  MUST(MPI_Wait(&request, &status));
  int received = -1;  // source and tag are not looked at: MPICH 4.0 leaves them out here
  MUST(MPI_Get_count(&status, MPI_BYTE, &received));
  EXPECT(received == 0, "nobody sent %d bytes", received);
  MUST(MPI_Isend(buffer, 100, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_WORLD, &request));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_HOLDS(buffer, 0, 0);
  // Half of a Sendrecv to nobody, along a line of ranks.
  const int right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  Memory out(Place::device, 10000), in(Place::device, 10000);
  out.fill(key_of(rank));
  if (!MUST(MPI_Sendrecv(out, 10000, MPI_BYTE, right, tag, in, 10000, MPI_BYTE, left, tag, MPI_COMM_WORLD,
                         &status)))
    return;
  EXPECT_STATUS(status, left, left < 0 ? MPI_ANY_TAG : tag, left < 0 ? 0 : 10000);
  EXPECT_HOLDS(in, key_of(left), left < 0 ? 0 : 10000);
}

RANK_TEST(ends, M11_self_sends, 1) {
  for (Place from : all_places) {
    for (Place to : all_places) {
      for (size_t bytes : {size_t{0}, size_t{64}, size_t{65}, size_t{300000}}) {
        const int count = static_cast<int>(bytes);
        Memory out(from, bytes), in(to, bytes);
        out.fill(key_of(bytes, 1));
        MPI_Status status;
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        MUST(MPI_Sendrecv(out, count, MPI_BYTE, rank, tag, in, count, MPI_BYTE, rank, tag, MPI_COMM_WORLD,
                          &status));
        EXPECT_STATUS(status, rank, tag, bytes);
        EXPECT_HOLDS(in, key_of(bytes, 1), bytes);
        in.clear();
        MUST(MPI_Irecv(in, count, MPI_BYTE, 0, tag, MPI_COMM_SELF, &requests[0]));
        MUST(MPI_Send(out, count, MPI_BYTE, 0, tag, MPI_COMM_SELF));
        MUST(MPI_Wait(&requests[0], &status));
        EXPECT_STATUS(status, 0, tag, bytes);
        EXPECT_HOLDS(in, key_of(bytes, 1), bytes);
        in.clear();
        MUST(MPI_Isend(out, count, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &requests[1]));
        MUST(MPI_Recv(in, count, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status));
        MUST(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        EXPECT_STATUS(status, rank, tag, bytes);
        EXPECT_HOLDS(in, key_of(bytes, 1), bytes);
      }
    }
  }
}

RANK_TEST(ends, M11_every_predefined_type, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  const MPI_Datatype types[] = {
      MPI_CHAR,
      MPI_SIGNED_CHAR,
      MPI_UNSIGNED_CHAR,
      MPI_BYTE,
      MPI_WCHAR,
      MPI_SHORT,
      MPI_INT,
      MPI_LONG,
      MPI_LONG_LONG,
      MPI_UNSIGNED_SHORT,
      MPI_UNSIGNED,
      MPI_FLOAT,
      MPI_UNSIGNED_LONG,
      MPI_DOUBLE,
      MPI_UNSIGNED_LONG_LONG,
      MPI_LONG_DOUBLE,
      MPI_INT8_T,
      MPI_INT16_T,
      MPI_INT32_T,
      MPI_INT64_T,
      MPI_UINT8_T,
      MPI_UINT16_T,
      MPI_UINT32_T,
      MPI_UINT64_T,
      MPI_C_BOOL,
      MPI_C_COMPLEX,
      MPI_AINT,
      MPI_C_DOUBLE_COMPLEX,
      MPI_OFFSET,
      MPI_C_LONG_DOUBLE_COMPLEX,
      MPI_COUNT,
      MPI_2INT,
      MPI_FLOAT_INT,
      MPI_PACKED,
  };
  for (size_t i = 0; i < std::size(types); ++i) {
    for (int count : {1, 5, 3000}) {
      int type_size;
      MUST(MPI_Type_size(types[i], &type_size));
      const size_t bytes = static_cast<size_t>(type_size) * count;
      if (rank < peer) {
        Memory out(Place::device, bytes);
        out.fill(key_of(i, count));
        MUST(MPI_Send(out, count, types[i], peer, tag, MPI_COMM_WORLD));
      } else {
        Memory in(count == 5 ? Place::host : Place::device, bytes);
        MPI_Status status;
        int received = -1;
        if (!MUST(MPI_Recv(in, count, types[i], peer, tag, MPI_COMM_WORLD, &status))) continue;
        MUST(MPI_Get_count(&status, types[i], &received));
        EXPECT(received == count, "type %zu: %d of %d elements", i, received, count);
        EXPECT_STATUS(status, peer, tag, bytes);
        EXPECT_HOLDS(in, key_of(i, count), bytes);
      }
    }
  }
}

RANK_TEST(ends, M11_other_communicators, 2) {
  MPI_Comm duplicate, reversed, half;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
  MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
  for (size_t bytes : sizes) {
    ring(duplicate, bytes);
    ring(reversed, bytes);
    ring(half, bytes);
  }
  MUST(MPI_Comm_free(&duplicate));
  MUST(MPI_Comm_free(&reversed));
  MUST(MPI_Comm_free(&half));
}

RANK_TEST(ends, M11_intercommunicator, 2) {
  // Even and odd ranks face each other; an odd one out has no partner.
  MPI_Comm half, inter;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
  MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, tag, &inter));
  const int remote = partner() == MPI_PROC_NULL ? MPI_PROC_NULL : rank / 2;
  for (size_t bytes : sizes) {
    for (Place to : host_and_device) {
      if (remote == MPI_PROC_NULL) continue;
      const int count = static_cast<int>(bytes);
      Memory buffer(rank % 2 == 0 ? Place::device : to, bytes);
      if (rank % 2 == 0) {
        buffer.fill(key_of(rank, bytes));
        MUST(MPI_Send(buffer, count, MPI_BYTE, remote, tag, inter));
      } else {
        MPI_Status status;
        if (!MUST(MPI_Recv(buffer, count, MPI_BYTE, remote, tag, inter, &status))) continue;
        EXPECT_STATUS(status, remote, tag, bytes);
        EXPECT_HOLDS(buffer, key_of(rank - 1, bytes), bytes);
      }
    }
  }
  MUST(MPI_Comm_free(&inter));
  MUST(MPI_Comm_free(&half));
}

RANK_TEST(ends, M11_contiguous_derived_types, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  MPI_Datatype row, matrix;
  MUST(MPI_Type_contiguous(100, MPI_DOUBLE, &row));
  MUST(MPI_Type_vector(50, 1, 1, row, &matrix));  // a vector without gaps
  MUST(MPI_Type_commit(&matrix));
  constexpr size_t bytes = 3 * 50 * 100 * sizeof(double);
  if (rank < peer) {
    Memory out(Place::device, bytes);
    out.fill(key_of(1));
    MUST(MPI_Send(out, 3, matrix, peer, tag, MPI_COMM_WORLD));
  } else {
    Memory in(Place::device, bytes);
    MPI_Status status;
    if (MUST(MPI_Recv(in, 3, matrix, peer, tag, MPI_COMM_WORLD, &status))) {
      EXPECT_STATUS(status, peer, tag, bytes);
      EXPECT_HOLDS(in, key_of(1), bytes);
    }
  }
  MUST(MPI_Type_free(&row));
  MUST(MPI_Type_free(&matrix));
}

RANK_TEST(ends, M11_gaps_on_the_device_give_right_data_or_an_error, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int blocks = 1000, stride = 3;
  MPI_Datatype every_third;
  MUST(MPI_Type_vector(blocks, 1, stride, MPI_INT, &every_third));
  MUST(MPI_Type_commit(&every_third));
  std::vector<int> spread(blocks * stride), packed(blocks);
  for (int i = 0; i < blocks * stride; ++i) spread[i] = 7 * i;
  for (int i = 0; i < blocks; ++i) packed[i] = spread[i * stride];
  // A refused send must not leave half a message, so the receiver is told whether there is one.
  int sent = 0;
  if (rank < peer) {
    Memory out(Place::device, spread.size() * sizeof(int));
    out.write(spread.data(), out.bytes());
    MPI_Request request = MPI_REQUEST_NULL;
    const int result = CALL(MPI_Isend(out, 1, every_third, peer, tag, MPI_COMM_WORLD, &request));
    sent = result == MPI_SUCCESS;
    MUST(MPI_Send(&sent, 1, MPI_INT, peer, tag + 1, MPI_COMM_WORLD));
    if (sent) MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Send(packed.data(), blocks, MPI_INT, peer, tag + 2, MPI_COMM_WORLD));
  } else {
    MUST(MPI_Recv(&sent, 1, MPI_INT, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (sent) {
      std::vector<int> found(blocks);
      MUST(MPI_Recv(found.data(), blocks, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      EXPECT(found == packed, "a strided device buffer arrived wrong");
    }
    Memory in(Place::device, spread.size() * sizeof(int));
    const std::vector<int> before(spread.size(), -1);
    in.write(before.data(), in.bytes());
    if (CALL(MPI_Recv(in, 1, every_third, peer, tag + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) == MPI_SUCCESS) {
      std::vector<int> after(spread.size());
      in.read(after.data(), in.bytes());
      std::vector<int> wanted = before;
      for (int i = 0; i < blocks; ++i) wanted[i * stride] = packed[i];
      EXPECT(after == wanted, "a strided receive into device memory gave wrong data");
    } else {
      std::vector<int> drained(blocks);  // a refused receive took nothing
      MUST(MPI_Recv(drained.data(), blocks, MPI_INT, peer, tag + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      EXPECT(drained == packed, "the message of a refused receive is damaged");
    }
  }
  MUST(MPI_Type_free(&every_third));
}

// A type whose blocks name device memory, one block or two of one allocation, from an address that is none.
static void send_from(MPI_Aint distance) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (size_t bytes : {size_t{8}, size_t{4096}, size_t{300000}}) {
    for (bool whole : {true, false}) {
      for (bool nonblocking : {false, true}) {
        Memory buffer(Place::device, bytes);
        MPI_Aint address;
        MUST(MPI_Get_address(buffer, &address));
        const int half = static_cast<int>(bytes / 2), quarter = half / 2;
        const int lengths[] = {whole ? static_cast<int>(bytes) : half, quarter};
        void* const origin = distance ? reinterpret_cast<void*>(address - distance) : MPI_BOTTOM;
        const MPI_Aint first = distance ? distance : address;
        const MPI_Aint addresses[] = {first, first + half + quarter};
        MPI_Datatype type;
        MUST(MPI_Type_create_hindexed(whole ? 1 : 2, lengths, addresses, MPI_BYTE, &type));
        MUST(MPI_Type_commit(&type));
        const uint64_t key = key_of(bytes, whole, nonblocking);
        MPI_Request request = MPI_REQUEST_NULL;
        if (rank < peer) {
          buffer.fill(key);
          if (nonblocking)
            MUST(MPI_Isend(origin, 1, type, peer, tag, MPI_COMM_WORLD, &request));
          else
            MUST(MPI_Send(origin, 1, type, peer, tag, MPI_COMM_WORLD));
          MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
          if (nonblocking)
            MUST(MPI_Irecv(origin, 1, type, peer, tag, MPI_COMM_WORLD, &request));
          else
            MUST(MPI_Recv(origin, 1, type, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
          MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
          std::vector<char> found(bytes), sent(bytes);
          buffer.read(found.data(), bytes);
          write_pattern(key, sent.data(), bytes);
          for (int block = 0; block < (whole ? 1 : 2); ++block) {
            const MPI_Aint offset = addresses[block] - first;
            EXPECT(std::equal(found.begin() + offset, found.begin() + offset + lengths[block],
                              sent.begin() + offset),
                   "block %d of a message of %zu bytes is wrong", block, bytes);
          }
        }
        MUST(MPI_Type_free(&type));
      }
    }
  }
}

RANK_TEST(ends, M11_absolute_addresses_in_a_datatype, 2) {
  send_from(0);
}

RANK_TEST(ends, M11_blocks_far_from_the_buffer_s_address, 2) {
  send_from(MPI_Aint{1} << 33);
}
