// SPDX-License-Identifier: Apache-2.0
//
// Datatypes of absolute addresses, from MPI_BOTTOM: over several allocations of device memory, and of host
// memory in jobs with GPUs.

#include <algorithm>
#include <vector>

#include "harness/laid_out.h"

using namespace ranks;

namespace {

constexpr int tag = 63;

}  // namespace

// They are one block, but no copy may cross from one allocation to the other.
RANK_TEST(datatypes, one_block_in_two_allocations, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int bytes = SideBySide::bytes;
  const auto key = [](int from, uint64_t message) { return key_of(static_cast<uint64_t>(from), message); };
  SideBySide out, in;
  out.fill(key(rank, 1));
  in.fill(0);
  MUST(MPI_Sendrecv(MPI_BOTTOM, 1, out.type(), peer, tag, MPI_BOTTOM, 1, in.type(), peer, tag, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
  EXPECT(in.holds(key(peer, 1)), "a Sendrecv brought other bytes");
  // Between these and buffers of one allocation.
  Memory plain(Place::device, SideBySide::bytes);
  if (rank < peer) {
    MUST(MPI_Send(MPI_BOTTOM, 1, out.type(), peer, tag, MPI_COMM_WORLD));
    plain.fill(key(rank, 2));
    MUST(MPI_Send(plain, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
  } else {
    MUST(MPI_Recv(plain, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_HOLDS(plain, key(peer, 1), SideBySide::bytes);
    MUST(MPI_Recv(MPI_BOTTOM, 1, in.type(), peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT(in.holds(key(peer, 2)), "a receive brought other bytes");
  }
#ifdef MPICH_VERSION
  if (host_oracle) return;  // its MPI_Pack refuses MPI_BOTTOM (4.0.2)
#endif
  for (Place place : host_and_device) {
    Memory packed(place, SideBySide::bytes);
    int at = 0;
    MUST(MPI_Pack(MPI_BOTTOM, 1, out.type(), packed, bytes, &at, MPI_COMM_WORLD));
    EXPECT_HOLDS(packed, key(rank, 1), SideBySide::bytes);
    in.fill(0);
    at = 0;
    MUST(MPI_Unpack(packed, bytes, &at, MPI_BOTTOM, 1, in.type(), MPI_COMM_WORLD));
    EXPECT(in.holds(key(rank, 1)), "from %s memory other bytes were unpacked", to_string(place));
  }
}

// Receives that are shorter than a descriptor, and what is sent and replaced, from MPI_BOTTOM. Fairlead does
// not know how the second type is made.
RANK_TEST(datatypes, absolute_addresses_of_host_memory, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  MPI_Datatype unknown;
  MUST(MPI_Type_create_f90_integer(9, &unknown));
  for (MPI_Datatype element : {MPI_INT, unknown})
    for (Place from : host_and_device)
      for (size_t count : {2, 500}) {
        std::vector<int> first(count, -1), second(count, -1), wanted(2 * count);
        const int lengths[] = {static_cast<int>(count), static_cast<int>(count)};
        MPI_Aint addresses[2];
        MUST(MPI_Get_address(first.data(), &addresses[0]));
        MUST(MPI_Get_address(second.data(), &addresses[1]));
        MPI_Datatype made;
        MUST(MPI_Type_create_hindexed(2, lengths, addresses, element, &made));
        const Type type(made);
        const auto value_of = [](int of, size_t item) { return 10000 * (of + 1) + static_cast<int>(item); };
        Memory sent(from, 2 * count * sizeof(int));
        for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = value_of(rank, i);
        sent.write(wanted.data(), sent.bytes());
        for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = value_of(peer, i);
        const auto expect = [&](const char* call) {
          EXPECT(std::equal(first.begin(), first.end(), wanted.begin()) &&
                     std::equal(second.begin(), second.end(), wanted.begin() + lengths[0]),
                 "%s of 2 * %zu ints from %s memory: wrong", call, count, to_string(from));
        };
        const auto forget = [&] {
          std::fill(first.begin(), first.end(), -1);
          std::fill(second.begin(), second.end(), -1);
        };
        for (bool blocking : {true, false}) {
          MPI_Request request = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
          forget();
          if (!blocking) MUST(MPI_Irecv(MPI_BOTTOM, 1, type, peer, tag, MPI_COMM_WORLD, &receive));
          MUST(MPI_Isend(sent, 2 * lengths[0], element, peer, tag, MPI_COMM_WORLD, &request));
          if (blocking)
            MUST(MPI_Recv(MPI_BOTTOM, 1, type, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
          else
            MUST(MPI_Wait(&receive, MPI_STATUS_IGNORE));
          expect(blocking ? "MPI_Recv" : "MPI_Irecv");
          MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        MPI_Request request = MPI_REQUEST_NULL;
        if (from == Place::device && element == MPI_INT) {
          // While something of the device is under way, others go another way.
          MUST(MPI_Isend(sent, 2 * lengths[0], element, peer, tag + 1, MPI_COMM_WORLD, &request));
        }
        std::copy_n(wanted.begin(), count, first.begin());
        std::copy_n(wanted.begin() + lengths[0], count, second.begin());
        MUST(MPI_Sendrecv_replace(MPI_BOTTOM, 1, type, peer, tag, peer, tag, MPI_COMM_WORLD,
                                  MPI_STATUS_IGNORE));
        for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = value_of(rank, i);
        expect("MPI_Sendrecv_replace");
        if (request != MPI_REQUEST_NULL) {
          MUST(MPI_Recv(sent, 2 * lengths[0], element, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
          MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
      }
}

// The packed bytes are in device memory, so that the host MPI packs for Fairlead.
RANK_TEST(datatypes, absolute_addresses_in_the_external_form, 1) {
#ifdef MPICH_VERSION
  if (host_oracle) return;  // it refuses MPI_BOTTOM (4.0.2)
#endif
  int values[] = {7, 8, 9};
  const int wanted[] = {7, 8, 9}, length = 3;
  MPI_Aint address, at = 0;
  MUST(MPI_Get_address(values, &address));
  MPI_Datatype made;
  MUST(MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &made));
  const Type type(made);
  Memory packed(Place::device, sizeof(values));
  char form[] = "external32";
  MUST(MPI_Pack_external(form, MPI_BOTTOM, 1, type, packed, sizeof(values), &at));
  EXPECT(at == sizeof(values), "%td bytes were packed", at);
  std::fill_n(values, 3, 0);
  at = 0;
  MUST(MPI_Unpack_external(form, packed, sizeof(values), &at, MPI_BOTTOM, 1, type));
  EXPECT(std::equal(wanted, wanted + 3, values), "other values were unpacked");
}
