// SPDX-License-Identifier: Apache-2.0
//
// Receives into host memory that are in flight when the first device messages come: until then the host MPI
// receives alone. What a job did before changes what these cases prove, so each row of settings.def runs one
// of them in a job of its own.

#include <sys/mman.h>

#include <algorithm>
#include <random>

#include "harness/harness.h"
#include "harness/rounds.h"

using namespace ranks;

namespace {

constexpr int tag = 31;
constexpr int go = 30;
// Shorter than an RTS header, as long, a chunk of the tests between nodes, longer than any chunk.
constexpr size_t sizes[] = {0, 8, 96, 200, 4096, 5000, 70000, (1 << 20) + 1};

int count_of(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

// Completes all requests by a function of the seed's choice; statuses[i] is that of requests[i].
void complete(std::vector<MPI_Request>& requests, std::vector<MPI_Status>& statuses,
              std::mt19937_64& random) {
  const int count = static_cast<int>(requests.size());
  std::vector<MPI_Status> some(requests.size());
  std::vector<int> indices(requests.size());
  auto pending = [&] {
    return std::any_of(requests.begin(), requests.end(), [](MPI_Request r) { return r != MPI_REQUEST_NULL; });
  };
  while (pending()) {
    int index = MPI_UNDEFINED, done = 0;
    switch (random() % 6) {
      case 0:
        for (int i = 0; i < count; ++i)
          if (requests[i] != MPI_REQUEST_NULL) {
            MUST(MPI_Wait(&requests[i], &statuses[i]));
            break;
          }
        break;
      case 1:
        MUST(MPI_Waitany(count, requests.data(), &index, some.data()));
        if (index != MPI_UNDEFINED) statuses[index] = some[0];
        break;
      case 2:
        MUST(MPI_Testany(count, requests.data(), &index, &done, some.data()));
        if (done && index != MPI_UNDEFINED) statuses[index] = some[0];
        break;
      case 3:
      case 4:
        MUST((random() & 1 ? MPI_Waitsome : MPI_Testsome)(count, requests.data(), &done, indices.data(),
                                                          some.data()));
        for (int i = 0; done != MPI_UNDEFINED && i < done; ++i) statuses[indices[i]] = some[i];
        break;
      case 5:
        if (random() % 4) break;
        for (int i = 0; i < count; ++i) some[i] = statuses[i];
        std::vector<bool> was_pending(requests.size());
        for (int i = 0; i < count; ++i) was_pending[i] = requests[i] != MPI_REQUEST_NULL;
        MUST(MPI_Waitall(count, requests.data(), some.data()));
        for (int i = 0; i < count; ++i)
          if (was_pending[i]) statuses[i] = some[i];
        break;
    }
  }
}

// Rank 0 takes device messages of rank 1 by take(buffer, &status) while a receive of its own waits for the
// last message of all. The settings check that the device messages stop being whole.
template <class Take>
void take_beside_a_waiting_receive(Place place, const Take& take) {
  constexpr size_t bytes = 300000;
  constexpr int messages = 40;
  Memory last(Place::host, 1024), buffer(rank == 0 ? place : Place::device, bytes);
  MPI_Status status;
  MPI_Request request;
  if (rank == 0) {
    MUST(MPI_Irecv(last, count_of(last), MPI_BYTE, 1, go, MPI_COMM_WORLD, &request));
    for (uint64_t i = 0; i < messages; ++i) {
      buffer.clear();
      take(buffer, &status);
      EXPECT_STATUS(status, 1, tag, bytes);
      EXPECT_HOLDS(buffer, key_of(i), bytes);
    }
    MUST(MPI_Wait(&request, &status));
    EXPECT_STATUS(status, 1, go, last.bytes());
    EXPECT_HOLDS(last, key_of(messages), last.bytes());
  } else if (rank == 1) {
    for (uint64_t i = 0; i < messages; ++i) {
      buffer.fill(key_of(i));
      MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, 0, tag, MPI_COMM_WORLD));
    }
    last.fill(key_of(messages));
    MUST(MPI_Send(last, count_of(last), MPI_BYTE, 0, go, MPI_COMM_WORLD));
  }
}

void take_by_receive(Memory& buffer, MPI_Status* status) {
  MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, 1, tag, MPI_COMM_WORLD, status));
}

}  // namespace

RANK_TEST(forwarded, M1_M2_receives_of_host_memory_meet_device_messages, 2) {
  repeat("forwarded.M1_M2", options.seconds, [](uint64_t seed) {
    // All ranks make the same plan: each sends to each other one, itself included.
    std::mt19937_64 random(seed);
    struct Message {
      int from, to, tag;
      size_t bytes, room;
      bool device, early;
    };
    std::vector<Message> plan;
    const int messages = 4 + static_cast<int>(random() % 24);
    const unsigned devices = random() % 4;  // of how many messages in four device memory is sent
    for (int i = 0; i < messages; ++i) {
      Message m{};
      m.from = static_cast<int>(random() % static_cast<unsigned>(size));
      m.to = static_cast<int>(random() % static_cast<unsigned>(size));
      m.tag = tag + static_cast<int>(random() % 3);
      m.bytes = sizes[random() % std::size(sizes)];
      m.room = m.bytes + (random() % 2 ? random() % 300 : 0);
      m.device = random() % 4 < devices;
      m.early = random() % 4 != 0;  // its receive is posted before it is sent
      plan.push_back(m);
    }
    // Receives with equal source and tag match in the order of posting, so the early ones must come first.
    std::stable_partition(plan.begin(), plan.end(), [](const Message& m) { return m.early; });
    std::vector<Memory> buffers, sent;
    std::vector<MPI_Request> requests, sends;
    std::vector<const Message*> mine;
    std::mt19937_64 own(seed * 64 + static_cast<uint64_t>(rank));
    auto post = [&](bool early) {
      for (const Message& m : plan) {
        if (m.to != rank || m.early != early) continue;
        buffers.emplace_back(Place::host, m.room);
        mine.push_back(&m);
        MUST(MPI_Irecv(buffers.back(), static_cast<int>(m.room), MPI_BYTE, m.from, m.tag, MPI_COMM_WORLD,
                       &requests.emplace_back()));
      }
    };
    post(true);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    for (size_t i = 0; i < plan.size(); ++i) {
      const Message& m = plan[i];
      if (m.from != rank) continue;
      sent.emplace_back(m.device ? Place::device : Place::host, m.bytes);
      sent.back().fill(key_of(seed, i));
      MUST(MPI_Isend(sent.back(), count_of(sent.back()), MPI_BYTE, m.to, m.tag, MPI_COMM_WORLD,
                     &sends.emplace_back()));
    }
    post(false);
    std::vector<MPI_Status> statuses(requests.size());
    complete(requests, statuses, own);
    MUST(MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE));
    for (size_t i = 0; i < mine.size(); ++i) {
      EXPECT_STATUS(statuses[i], mine[i]->from, mine[i]->tag, mine[i]->bytes);
      EXPECT_HOLDS(buffers[i], key_of(seed, static_cast<uint64_t>(mine[i] - plan.data())), mine[i]->bytes);
    }
  });
}

RANK_TEST(forwarded, M3_windows_into_one_buffer_from_host_and_device_senders, 2) {
  repeat("forwarded.M3", options.seconds, [](uint64_t seed) {
    // Which bytes such a buffer holds is undefined, but every message must arrive, and those of other buffers
    // unharmed.
    std::mt19937_64 random(seed);
    constexpr int window = 6;
    const size_t bytes = sizes[2 + random() % (std::size(sizes) - 2)];
    const bool any = random() & 1;
    const bool at_once = random() & 1;  // all messages may arrive before rank 0 looks at one
    std::vector<bool> device(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) device[r] = random() % 3 == 0;
    if (rank == 0) {
      Memory shared(Place::host, bytes), own(Place::host, bytes);
      std::vector<MPI_Request> requests;
      for (int from = 1; from < size; ++from)
        for (int i = 0; i < window; ++i)
          MUST(MPI_Irecv(shared, count_of(shared), MPI_BYTE, any ? MPI_ANY_SOURCE : from, tag, MPI_COMM_WORLD,
                         &requests.emplace_back()));
      for (int to = 1; to < size; ++to) MUST(MPI_Send(nullptr, 0, MPI_BYTE, to, go, MPI_COMM_WORLD));
      if (at_once) MUST(MPI_Barrier(MPI_COMM_WORLD));
      std::vector<MPI_Status> statuses(requests.size());
      complete(requests, statuses, random);
      for (const MPI_Status& status : statuses) EXPECT_STATUS(status, status.MPI_SOURCE, tag, bytes);
      for (int from = 1; from < size; ++from) {
        MPI_Status status;
        own.clear();
        MUST(MPI_Recv(own, count_of(own), MPI_BYTE, from, tag + 1, MPI_COMM_WORLD, &status));
        EXPECT_STATUS(status, from, tag + 1, bytes);
        EXPECT_HOLDS(own, key_of(seed, from), bytes);
      }
    } else {
      Memory buffer(device[rank] ? Place::device : Place::host, bytes);
      buffer.fill(key_of(seed, rank));
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, 0, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MPI_Request sends[window];
      for (MPI_Request& send : sends) {
        MUST(MPI_Isend(buffer, count_of(buffer), MPI_BYTE, 0, tag, MPI_COMM_WORLD, &send));
        if (!at_once) MUST(MPI_Wait(&send, MPI_STATUS_IGNORE));
      }
      if (at_once) MUST(MPI_Barrier(MPI_COMM_WORLD));
      MUST(MPI_Waitall(window, sends, MPI_STATUSES_IGNORE));
      MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, 0, tag + 1, MPI_COMM_WORLD));
    }
  });
}

RANK_TEST(forwarded, M5_a_receiver_in_the_host_MPI_gets_every_device_message, 2) {
  // It makes no progress in Fairlead, so it permits nothing until a message has come.
  for (size_t bytes : sizes) {
    for (int i = 0; i < 4; ++i) {
      if (rank == 0) {
        Memory buffer(Place::host, bytes);
        for (int from = 1; from < size; ++from) {
          MPI_Status status;
          buffer.clear();
          MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status));
          EXPECT_STATUS(status, status.MPI_SOURCE, tag, bytes);
          EXPECT_HOLDS(buffer, key_of(bytes, status.MPI_SOURCE), bytes);
        }
      } else {
        Memory buffer(Place::device, bytes);
        buffer.fill(key_of(bytes, rank));
        MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, 0, tag, MPI_COMM_WORLD));
      }
      MUST(MPI_Barrier(MPI_COMM_WORLD));
    }
  }
}

RANK_TEST(forwarded, M5_a_sender_leaves_before_its_question_is_answered, 2) {
  // The last messages of the job, of either side of the length of a chunk: nobody enters MPI between them and
  // MPI_Finalize.
  constexpr size_t bytes = 300000;
  Memory buffer(rank == 0 ? Place::host : Place::device, bytes);
  if (rank == 0) {
    for (int from = 1; from < size; ++from) {
      MUST(MPI_Recv(buffer, count_of(buffer), MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      EXPECT_HOLDS(buffer, key_of(bytes, from), bytes);
    }
  } else {
    buffer.fill(key_of(bytes, rank));
    MUST(MPI_Send(buffer, count_of(buffer), MPI_BYTE, 0, tag, MPI_COMM_WORLD));
  }
}

RANK_TEST(forwarded, M8_a_freed_or_cancelled_receive_leaves_the_rest, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 5000;
  Memory freed(Place::host, bytes), cancelled(Place::host, bytes), wanted(Place::host, bytes);
  Memory from(Place::device, bytes);
  MPI_Request requests[3];
  MPI_Status status;
  int done = 0;
  MUST(MPI_Irecv(freed, count_of(freed), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
  MUST(MPI_Irecv(cancelled, count_of(cancelled), MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, &requests[1]));
  MUST(MPI_Irecv(wanted, count_of(wanted), MPI_BYTE, peer, tag + 2, MPI_COMM_WORLD, &requests[2]));
  MUST(MPI_Cancel(&requests[1]));
  MUST(MPI_Wait(&requests[1], &status));
  MUST(MPI_Test_cancelled(&status, &done));
  EXPECT(done, "a receive without a message was not cancelled");
  MUST(MPI_Request_free(&requests[0]));
  from.fill(key_of(1));
  MPI_Request sends[2];
  MUST(MPI_Isend(from, count_of(from), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &sends[0]));
  MUST(MPI_Isend(from, count_of(from), MPI_BYTE, peer, tag + 2, MPI_COMM_WORLD, &sends[1]));
  MUST(MPI_Wait(&requests[2], &status));
  EXPECT_STATUS(status, peer, tag + 2, bytes);
  EXPECT_HOLDS(wanted, key_of(1), bytes);
  MUST(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
  // The message of the freed receive came before; nothing else says when it has arrived.
  std::string why;
  while (!freed.holds(key_of(1), bytes, &why)) {
    int found;
    MUST(MPI_Iprobe(peer, go, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
  }
}

RANK_TEST(forwarded, receives_of_device_memory_end_what_one_in_flight_holds_off, 2) {
  take_beside_a_waiting_receive(Place::device, take_by_receive);
}

RANK_TEST(forwarded, receives_of_host_memory_end_what_one_in_flight_holds_off, 2) {
  take_beside_a_waiting_receive(Place::host, take_by_receive);
}

RANK_TEST(forwarded, matched_probes_end_what_one_in_flight_holds_off, 2) {
  take_beside_a_waiting_receive(Place::host, [](Memory& buffer, MPI_Status* status) {
    MPI_Message message;
    MUST(MPI_Mprobe(1, tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    MUST(MPI_Mrecv(buffer, count_of(buffer), MPI_BYTE, &message, status));
  });
}

RANK_TEST(forwarded, M8_a_buffer_is_the_programs_once_its_receive_is_seen_to_be_complete, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  // As long as an RTS header: such a message is looked at.
  constexpr size_t bytes = 96, room = 4096;
  void* buffer = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Memory from(Place::host, bytes), device(Place::device, bytes);
  MPI_Request request;
  MPI_Status status;
  MUST(MPI_Irecv(buffer, room, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
  MUST(MPI_Send(from, count_of(from), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
  for (int complete = 0; !complete;) MUST(MPI_Request_get_status(request, &complete, MPI_STATUS_IGNORE));
  munmap(buffer, room);
  MUST(MPI_Sendrecv(device, count_of(device), MPI_BYTE, peer, go, from, count_of(from), MPI_BYTE, peer, go,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  MUST(MPI_Wait(&request, &status));
  EXPECT_STATUS(status, peer, tag, bytes);
}
