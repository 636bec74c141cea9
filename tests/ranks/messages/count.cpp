// SPDX-License-Identifier: Apache-2.0
//
// M2: status, Get_count, Get_elements and every kind of probe report the message the user sent, never what
// travels in its stead, for all places of the two ends and for sizes on both sides of a descriptor's.

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 11;
constexpr size_t sizes[] = {0, 1, 8, 64, 95, 96, 97, 127, 128, 129, 4096, 65536, 65537, 1 << 20};

// How the receiver meets the message.
enum class Way { recv, irecv, probe, iprobe, mprobe, improbe, mprobe_imrecv };
constexpr Way ways[] = {Way::recv,   Way::irecv,   Way::probe,        Way::iprobe,
                        Way::mprobe, Way::improbe, Way::mprobe_imrecv};

uint64_t key(int way, size_t bytes) {
  return key_of(way, bytes, 2);
}

void receive(Way way, const Memory& buffer, int capacity, int source, int from, int wanted, size_t bytes) {
  MPI_Status probed, status;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  int found = 0;
  switch (way) {
    case Way::recv:
      MUST(MPI_Recv(buffer, capacity, MPI_BYTE, from, wanted, MPI_COMM_WORLD, &status));
      break;
    case Way::irecv:
      MUST(MPI_Irecv(buffer, capacity, MPI_BYTE, from, wanted, MPI_COMM_WORLD, &request));
      MUST(MPI_Wait(&request, &status));
      break;
    case Way::probe:
      MUST(MPI_Probe(from, wanted, MPI_COMM_WORLD, &probed));
      EXPECT_STATUS(probed, source, tag, bytes);
      MUST(MPI_Recv(buffer, capacity, MPI_BYTE, probed.MPI_SOURCE, probed.MPI_TAG, MPI_COMM_WORLD, &status));
      break;
    case Way::iprobe:
      while (!found && MUST(MPI_Iprobe(from, wanted, MPI_COMM_WORLD, &found, &probed))) continue;
      EXPECT_STATUS(probed, source, tag, bytes);
      MUST(MPI_Recv(buffer, capacity, MPI_BYTE, probed.MPI_SOURCE, probed.MPI_TAG, MPI_COMM_WORLD, &status));
      break;
    case Way::improbe:
      while (!found && MUST(MPI_Improbe(from, wanted, MPI_COMM_WORLD, &found, &message, &probed))) continue;
      EXPECT_STATUS(probed, source, tag, bytes);
      MUST(MPI_Mrecv(buffer, capacity, MPI_BYTE, &message, &status));
      EXPECT(message == MPI_MESSAGE_NULL, "Mrecv left its message handle");
      break;
    case Way::mprobe:
      MUST(MPI_Mprobe(from, wanted, MPI_COMM_WORLD, &message, &probed));
      EXPECT_STATUS(probed, source, tag, bytes);
      MUST(MPI_Mrecv(buffer, capacity, MPI_BYTE, &message, &status));
      break;
    case Way::mprobe_imrecv:
      MUST(MPI_Mprobe(from, wanted, MPI_COMM_WORLD, &message, &probed));
      EXPECT_STATUS(probed, source, tag, bytes);
      MUST(MPI_Imrecv(buffer, capacity, MPI_BYTE, &message, &request));
      EXPECT(message == MPI_MESSAGE_NULL, "Imrecv left its message handle");
      MUST(MPI_Wait(&request, &status));
      break;
  }
  EXPECT_STATUS(status, source, tag, bytes);
}

}  // namespace

RANK_TEST(count, M2_status_and_probes_tell_the_users_message, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      for (Way way : ways) {
        for (size_t bytes : sizes) {
          const uint64_t pattern = key(static_cast<int>(way), bytes);
          if (rank < peer) {
            Memory buffer(from, bytes);
            buffer.fill(pattern);
            MUST(MPI_Send(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
          } else {
            // Exactly enough room for some sizes, more for the others; with and without wildcards.
            const size_t capacity = bytes % 3 == 0 ? bytes : bytes + 100;
            const bool wild = bytes % 2 == 1;
            Memory buffer(to, capacity);
            receive(way, buffer, static_cast<int>(capacity), peer, wild ? MPI_ANY_SOURCE : peer,
                    wild ? MPI_ANY_TAG : tag, bytes);
            EXPECT_HOLDS(buffer, pattern, bytes);
          }
        }
      }
    }
  }
}

RANK_TEST(count, M2_partial_elements_are_undefined_counts, 2) {
  const int peer = partner();
  MPI_Datatype pair_of_ints;
  MUST(MPI_Type_contiguous(2, MPI_INT, &pair_of_ints));
  MUST(MPI_Type_commit(&pair_of_ints));
  for (Place from : host_and_device) {
    for (Place to : host_and_device) {
      for (int ints : {0, 1, 2, 7, 16, 17, 1001}) {
        if (peer == MPI_PROC_NULL) continue;
        const size_t bytes = ints * sizeof(int);
        if (rank < peer) {
          Memory buffer(from, bytes);
          buffer.fill(key(9, bytes));
          MUST(MPI_Send(buffer, ints, MPI_INT, peer, tag, MPI_COMM_WORLD));
          continue;
        }
        Memory buffer(to, 1024 * sizeof(int));
        MPI_Status probed, status;
        MUST(MPI_Probe(peer, tag, MPI_COMM_WORLD, &probed));
        MUST(MPI_Recv(buffer, 512, pair_of_ints, peer, tag, MPI_COMM_WORLD, &status));
        EXPECT_HOLDS(buffer, key(9, bytes), bytes);
        for (const MPI_Status& told : {probed, status}) {
          int count = -1, elements = -1, in_longs = -1;
          MPI_Count long_elements = -1;
          MUST(MPI_Get_count(&told, pair_of_ints, &count));
          MUST(MPI_Get_elements(&told, pair_of_ints, &elements));
          MUST(MPI_Get_elements_x(&told, pair_of_ints, &long_elements));
          MUST(MPI_Get_count(&told, MPI_INT64_T, &in_longs));
          const int whole = ints % 2 == 0 ? ints / 2 : MPI_UNDEFINED;
          EXPECT(count == whole, "%d ints count as %d pairs, not %d", ints, count, whole);
          EXPECT(elements == ints, "%d ints count as %d elements", ints, elements);
          EXPECT(long_elements == ints, "%d ints count as %lld elements", ints,
                 static_cast<long long>(long_elements));
          EXPECT(in_longs == whole, "%d ints count as %d longs, not %d", ints, in_longs, whole);
        }
      }
    }
  }
  MUST(MPI_Type_free(&pair_of_ints));
}

RANK_TEST(count, M2_probed_messages_wait_while_others_are_received, 2) {
  // Probing one message must not disturb receives of others, posted before or after the probe.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t first = 100000, second = 96, third = 70000;
  for (Place from : host_and_device) {
    if (rank < peer) {
      Memory a(from, first), b(from, second), c(from, third);
      a.fill(key(20, first)), b.fill(key(20, second)), c.fill(key(20, third));
      MPI_Request requests[3];
      MUST(MPI_Isend(a, first, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[0]));
      MUST(MPI_Isend(b, second, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[1]));
      MUST(MPI_Isend(c, third, MPI_BYTE, peer, 3, MPI_COMM_WORLD, &requests[2]));
      MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
      continue;
    }
    for (Place to : {Place::device}) {
      Memory a(to, first), b(to, first), c(Place::host, third);
      MPI_Status probed, status;
      MPI_Request request;
      MPI_Message message;
      MUST(MPI_Irecv(c, third, MPI_BYTE, peer, 3, MPI_COMM_WORLD, &request));
      MUST(MPI_Mprobe(peer, 1, MPI_COMM_WORLD, &message, &probed));
      EXPECT_STATUS(probed, peer, 1, first);
      // The first message is taken out of matching: a wildcard receive finds the second.
      MUST(MPI_Recv(b, first, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
      EXPECT_STATUS(status, peer, 2, second);
      EXPECT_HOLDS(b, key(20, second), second);
      MUST(MPI_Wait(&request, &status));
      EXPECT_STATUS(status, peer, 3, third);
      EXPECT_HOLDS(c, key(20, third), third);
      int found = 1;
      MUST(MPI_Iprobe(peer, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &probed));
      EXPECT(found == 0, "a probe finds a message that is matched or received already");
      MUST(MPI_Mrecv(a, first, MPI_BYTE, &message, &status));
      EXPECT_STATUS(status, peer, 1, first);
      EXPECT_HOLDS(a, key(20, first), first);
    }
  }
}

RANK_TEST(count, M2_every_receive_finds_what_a_probe_passed_over, 2) {
  // To tell the length of the second message, a probe must take the first one out of its way.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int passed_over = 1, probed_for = 2;
  constexpr size_t second = 500;
  enum class Form { recv, irecv, sendrecv, mrecv, persistent };
  for (Form form : {Form::recv, Form::irecv, Form::sendrecv, Form::mrecv, Form::persistent}) {
    for (size_t first : {13, 4000, 200000}) {
      for (Place to : host_and_device) {
        const uint64_t key_of_first = key(30, first), key_of_second = key(31, first);
        const int count = static_cast<int>(first);
        if (rank < peer) {
          Memory a(Place::host, first), b(Place::device, second);
          a.fill(key_of_first), b.fill(key_of_second);
          MPI_Request requests[3];
          MUST(MPI_Isend(a, count, MPI_BYTE, peer, passed_over, MPI_COMM_WORLD, &requests[0]));
          MUST(MPI_Isend(b, second, MPI_BYTE, peer, probed_for, MPI_COMM_WORLD, &requests[1]));
          MUST(MPI_Isend(a, count, MPI_BYTE, peer, passed_over, MPI_COMM_WORLD, &requests[2]));
          MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
          continue;
        }
        MPI_Status status;
        MUST(MPI_Probe(peer, probed_for, MPI_COMM_WORLD, &status));
        EXPECT_STATUS(status, peer, probed_for, second);
        Memory a(to, first + 100), b(Place::device, second);
        const int room = count + 100;
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Message message;
        if (form == Form::persistent)
          MUST(MPI_Recv_init(a, room, MPI_BYTE, peer, passed_over, MPI_COMM_WORLD, &request));
        // The second time nothing lies in the way of anything.
        for (int time = 0; time < 2; ++time) {
          a.clear();
          switch (form) {
            case Form::recv:
              MUST(MPI_Recv(a, room, MPI_BYTE, peer, passed_over, MPI_COMM_WORLD, &status));
              break;
            case Form::irecv:
              MUST(MPI_Irecv(a, room, MPI_BYTE, peer, passed_over, MPI_COMM_WORLD, &request));
              MUST(MPI_Wait(&request, &status));
              break;
            case Form::sendrecv:
              MUST(MPI_Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, a, room, MPI_BYTE, peer, passed_over,
                                MPI_COMM_WORLD, &status));
              break;
            case Form::mrecv:
              MUST(MPI_Mprobe(peer, passed_over, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
              MUST(MPI_Mrecv(a, room, MPI_BYTE, &message, &status));
              break;
            case Form::persistent:
              MUST(MPI_Start(&request));
              MUST(MPI_Wait(&request, &status));
              break;
          }
          EXPECT_STATUS(status, peer, passed_over, first);
          EXPECT_HOLDS(a, key_of_first, first);
        }
        if (form == Form::persistent) MUST(MPI_Request_free(&request));
        MUST(MPI_Recv(b, second, MPI_BYTE, peer, probed_for, MPI_COMM_WORLD, &status));
        EXPECT_STATUS(status, peer, probed_for, second);
        EXPECT_HOLDS(b, key_of_second, second);
      }
    }
  }
}

RANK_TEST(count, M2_messages_like_descriptors_in_length_are_payload, 2) {
  // Host messages around the length of a descriptor, with contents that look like anything, into receives
  // that expect a device sender, interleaved with true device messages.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  int serial = 0;
  for (size_t bytes = 32; bytes <= 192; ++bytes) {
    for (Place from : host_and_device) {
      const uint64_t pattern = key_of(bytes, serial, 3);
      const Place to = host_and_device[serial / 2 % 2];
      if (rank < peer) {
        Memory buffer(from, bytes);
        if (serial % 5 == 0)
          buffer.write(std::vector<char>(bytes, 0).data(), bytes);
        else
          buffer.fill(pattern);
        MUST(MPI_Send(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      } else {
        Memory buffer(to, bytes);
        MPI_Status status;
        MUST(MPI_Recv(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
        EXPECT_STATUS(status, peer, tag, bytes);
        if (serial % 5 == 0) {
          std::vector<char> content(bytes, 1);
          buffer.read(content.data(), bytes);
          EXPECT(content == std::vector<char>(bytes, 0), "a message of %zu zeros arrived changed", bytes);
        } else {
          EXPECT_HOLDS(buffer, pattern, bytes);
        }
      }
      ++serial;
    }
  }
}

RANK_TEST(count, M2_a_forwarded_message_is_not_taken_for_a_descriptor, 3) {
  // Rank 1 receives whatever came from rank 0 into host memory and passes the bytes on as they are.
  constexpr size_t bytes = 4096;
  for (size_t length : {size_t{95}, size_t{96}, size_t{97}, size_t{128}, bytes}) {
    const uint64_t pattern = key_of(length, 4);
    if (rank == 0) {
      Memory buffer(Place::device, length);
      buffer.fill(pattern);
      MUST(MPI_Send(buffer, static_cast<int>(length), MPI_BYTE, 1, tag, MPI_COMM_WORLD));
    } else if (rank == 1) {
      Memory buffer(Place::host, bytes);
      MPI_Status status;
      MUST(MPI_Recv(buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &status));
      MUST(MPI_Send(buffer, static_cast<int>(length), MPI_BYTE, 2, tag, MPI_COMM_WORLD));
    } else if (rank == 2) {
      Memory buffer(Place::device, bytes);
      MPI_Status status;
      MUST(MPI_Recv(buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &status));
      EXPECT_STATUS(status, 1, tag, length);
      EXPECT_HOLDS(buffer, pattern, length);
    }
  }
}

RANK_TEST(count, M2_proc_null_gives_its_own_status, 1) {
  Memory buffer(Place::device, 100);
  MPI_Status status;
  MPI_Message message;
  MUST(MPI_Recv(buffer, 100, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_WORLD, &status));
  EXPECT_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  MUST(MPI_Probe(MPI_PROC_NULL, tag, MPI_COMM_WORLD, &status));
  EXPECT_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  MUST(MPI_Mprobe(MPI_PROC_NULL, tag, MPI_COMM_WORLD, &message, &status));
  EXPECT(message == MPI_MESSAGE_NO_PROC, "Mprobe of MPI_PROC_NULL gave another message");
  MUST(MPI_Mrecv(buffer, 100, MPI_BYTE, &message, &status));
  EXPECT_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  EXPECT_HOLDS(buffer, 0, 0);
}

RANK_TEST(count, M2_persistent_receives_survive_what_a_probe_passed_over, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int bytes = 8, large = 5000, probed = tag + 1;
  Memory buffer(Place::host, bytes), rest(Place::host, large);
  MPI_Request requests[3];
  if (rank > peer)
    for (int i = 0; i < 2; ++i)
      MUST(MPI_Recv_init(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[i]));
  for (int round = 0; round < 3; ++round) {
    if (rank < peer) {
      Memory out(Place::device, large);
      buffer.fill(key_of(round));
      MUST(MPI_Isend(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
      MUST(MPI_Isend(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
      MUST(MPI_Isend(out, large, MPI_BYTE, peer, probed, MPI_COMM_WORLD, &requests[2]));
      MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
      continue;
    }
    if (round == 0) {
      // Both at once into one place, as benchmarks do, and both messages were in the way of the probe.
      MUST(MPI_Probe(peer, probed, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MUST(MPI_Startall(2, requests));
      MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    for (int i = 0; i < 2 && round > 0; ++i) {
      buffer.clear();
      MUST(MPI_Start(&requests[i]));
      MUST(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
      EXPECT_HOLDS(buffer, key_of(round), bytes);
    }
    MUST(MPI_Recv(rest, large, MPI_BYTE, peer, probed, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  if (rank > peer)
    for (int i = 0; i < 2; ++i) MUST(MPI_Request_free(&requests[i]));
}
