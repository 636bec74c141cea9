// SPDX-License-Identifier: Apache-2.0
//
// M1: messages of one (source, tag, communicator) are received in the order they were sent, whatever their
// sizes, the places of their ends and the kinds of send, also when the bytes of an earlier one move late.

#include <array>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 7;

// Neighbours in this list travel differently: below, at and above a descriptor, eager, and by rendezvous.
constexpr std::array<size_t, 14> sizes = {400000, 0,  64,   1,       63, 200000, 65,
                                          8,      64, 4096, 1 << 20, 64, 65536,  2};
constexpr size_t largest = 1 << 20;
constexpr int message_count = 3 * sizes.size();

size_t bytes_of(int message) {
  return sizes[message % sizes.size()];
}
uint64_t key(int source, int message) {
  return key_of(source, message, 1);
}

// Strides that have no common factor with the list's length, so that all combinations occur.
Place sender_place(int message) {
  return all_places[(message / 2) % std::size(all_places)];
}
Place receiver_place(int message) {
  return all_places[message % std::size(all_places)];
}

void expect_message(const MPI_Status& status, const Memory& memory, int source, int message) {
  EXPECT_STATUS(status, source, tag, bytes_of(message));
  EXPECT_HOLDS(memory, key(source, message), bytes_of(message));
}

std::vector<Memory> outgoing() {
  std::vector<Memory> buffers;
  for (int i = 0; i < message_count; ++i) {
    buffers.emplace_back(sender_place(i), bytes_of(i));
    buffers.back().fill(key(rank, i));
  }
  return buffers;
}

// Every other element of twice as many bytes, which hold the bytes of `out` there.
class Sparse {
 public:
  explicit Sparse(const Memory& out) : memory_(out.place(), 2 * out.bytes()) {
    std::vector<char> bytes(out.bytes());
    out.read(bytes.data(), bytes.size());
    std::vector<char> spread(2 * bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) spread[i / element * 2 * element + i % element] = bytes[i];
    memory_.write(spread.data(), spread.size());
    MUST(MPI_Type_vector(static_cast<int>(bytes.size() / element), element, 2 * element, MPI_BYTE, &type_));
    MUST(MPI_Type_commit(&type_));
  }
  Sparse(const Sparse&) = delete;
  ~Sparse() { MPI_Type_free(&type_); }
  void isend(int peer, MPI_Request* request) const {
    MUST(MPI_Isend(memory_, 1, type_, peer, tag, MPI_COMM_WORLD, request));
  }

 private:
  static constexpr int element = 8;
  Memory memory_;
  MPI_Datatype type_;
};

// Windows of receives into one buffer, nonblocking and persistent ones. Some of the messages have gaps where
// they are sent.
void exchange_windows(int peer, int bytes, Place from, Place to, int rounds) {
  constexpr int window = 64;
  Memory in(to, bytes), out(from, bytes);
  out.fill(key(rank, 0));
  const Sparse sparse(out);
  std::vector<MPI_Request> requests(window), kept(window);
  for (MPI_Request& request : kept)
    MUST(MPI_Recv_init(in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
  for (int round = 0; round < rounds; ++round) {
    std::vector<MPI_Status> statuses(window);
    if (rank < peer) {
      for (int i = 0; i < window; ++i)
        if (i % 5 < 2)
          sparse.isend(peer, &requests[i]);
        else
          MUST(MPI_Isend(out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[i]));
      MUST(MPI_Waitall(window, requests.data(), MPI_STATUSES_IGNORE));
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      continue;
    }
    const bool persistent = round % 4 == 3;
    if (persistent) {
      MUST(MPI_Startall(window, kept.data()));
    } else {
      for (MPI_Request& request : requests)
        MUST(MPI_Irecv(in, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
    }
    MUST(MPI_Waitall(window, persistent ? kept.data() : requests.data(), statuses.data()));
    for (const MPI_Status& status : statuses) EXPECT_STATUS(status, peer, tag, bytes);
    EXPECT_HOLDS(in, key(peer, 0), bytes);  // all messages are alike
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
  }
  for (MPI_Request& request : kept) MUST(MPI_Request_free(&request));
}

}  // namespace

RANK_TEST(order, M1_blocking_messages_of_one_tag_arrive_as_sent, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (int message = 0; message < message_count; ++message) {
    if (rank < peer) {
      Memory buffer(sender_place(message), bytes_of(message));
      buffer.fill(key(rank, message));
      MUST(MPI_Send(buffer, static_cast<int>(bytes_of(message)), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    } else {
      Memory buffer(receiver_place(message), largest);
      MPI_Status status;
      if (MUST(MPI_Recv(buffer, largest, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status)))
        expect_message(status, buffer, peer, message);
    }
  }
}

// The standard forbids it, benchmarks do it: what the buffer holds at the end is anybody's guess, but every
// message arrives.
RANK_TEST(order, windows_of_receives_into_one_host_buffer_end, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (int bytes : {1000, 40000})
    for (Place from : {Place::device, Place::host}) exchange_windows(peer, bytes, from, Place::host, 16);
}

RANK_TEST(order, windows_of_receives_into_one_device_buffer_end, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (int bytes : {1000, 40000, 100000})
    for (Place from : {Place::device, Place::host}) exchange_windows(peer, bytes, from, Place::device, 8);
}

RANK_TEST(order, M1_nonblocking_messages_of_one_tag_arrive_as_posted, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  // Every rank sends and receives; the receives offer room for any of the messages.
  std::vector<Memory> out = outgoing();
  std::vector<Memory> in;
  std::vector<MPI_Request> requests;
  for (int i = 0; i < message_count; ++i) in.emplace_back(receiver_place(i), largest);
  for (int i = 0; i < message_count; ++i) {
    requests.push_back(MPI_REQUEST_NULL);
    MUST(MPI_Irecv(in[i], largest, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests.back()));
    requests.push_back(MPI_REQUEST_NULL);
    MUST(MPI_Isend(out[i], static_cast<int>(bytes_of(i)), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                   &requests.back()));
  }
  std::vector<MPI_Status> statuses(requests.size());
  if (!MUST(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data()))) return;
  for (int i = 0; i < message_count; ++i) expect_message(statuses[2 * i], in[i], peer, i);
}

RANK_TEST(order, M1_isends_meet_receives_posted_later_in_order, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  if (rank < peer) {
    std::vector<Memory> out = outgoing();
    std::vector<MPI_Request> requests(message_count, MPI_REQUEST_NULL);
    for (int i = 0; i < message_count; ++i)
      MUST(MPI_Isend(out[i], static_cast<int>(bytes_of(i)), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                     &requests[i]));
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD));
    MUST(MPI_Waitall(message_count, requests.data(), MPI_STATUSES_IGNORE));
  } else {
    // All sends are posted when this arrives.
    MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < message_count; ++i) {
      Memory buffer(receiver_place(i), largest);
      MPI_Status status;
      const int source = i % 2 == 0 ? peer : MPI_ANY_SOURCE;
      const int wanted = i % 3 == 0 ? MPI_ANY_TAG : tag;
      if (MUST(MPI_Recv(buffer, largest, MPI_BYTE, source, wanted, MPI_COMM_WORLD, &status)))
        expect_message(status, buffer, peer, i);
    }
  }
}

RANK_TEST(order, M1_a_small_send_never_overtakes_a_large_isend, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t large = 2 << 20;
  constexpr int rounds = 6;
  for (int round = 0; round < rounds; ++round) {
    const Place small_place = round % 2 == 0 ? Place::host : Place::device;
    if (rank < peer) {
      Memory late(Place::device, large), small(small_place, 8);
      late.fill(key(rank, 2 * round));
      small.fill(key(rank, 2 * round + 1));
      MPI_Request request = MPI_REQUEST_NULL;
      MUST(MPI_Isend(late, large, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
      MUST(MPI_Send(small, 8, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
      Memory first(Place::device, large), second(Place::host, large);
      MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
      MPI_Status statuses[2];
      MUST(MPI_Irecv(first, large, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
      MUST(MPI_Irecv(second, large, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
      // Completed against the order of posting: the later one must still be the later message.
      const bool arrived = MUST(MPI_Wait(&requests[1], &statuses[1]));
      if (MUST(MPI_Wait(&requests[0], &statuses[0])) && arrived) {
        EXPECT_STATUS(statuses[0], peer, tag, large);
        EXPECT_HOLDS(first, key(peer, 2 * round), large);
        EXPECT_STATUS(statuses[1], peer, tag, 8);
        EXPECT_HOLDS(second, key(peer, 2 * round + 1), 8);
      }
    }
  }
}

RANK_TEST(order, M1_order_is_kept_per_communicator_and_tag, 2) {
  const int peer = partner();
  MPI_Comm other;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &other));
  // Received in an order that differs from the sending order between streams, never within one.
  struct Message {
    bool on_other;
    int tag;
    size_t bytes;
  };
  constexpr Message sent[] = {{false, 1, 100000}, {true, 1, 64}, {false, 2, 4096}, {true, 1, 300000},
                              {false, 1, 64},     {false, 2, 9}, {true, 2, 65},    {false, 1, 1 << 20}};
  constexpr int received[] = {6, 2, 1, 5, 0, 3, 4, 7};
  if (peer != MPI_PROC_NULL && rank < peer) {
    std::vector<Memory> out;
    MPI_Request requests[std::size(sent)];
    for (size_t i = 0; i < std::size(sent); ++i) {
      out.emplace_back(i % 3 == 1 ? Place::host : Place::device, sent[i].bytes);
      out.back().fill(key(rank, static_cast<int>(i)));
      MUST(MPI_Isend(out.back(), static_cast<int>(sent[i].bytes), MPI_BYTE, peer, sent[i].tag,
                     sent[i].on_other ? other : MPI_COMM_WORLD, &requests[i]));
    }
    MUST(MPI_Waitall(std::size(sent), requests, MPI_STATUSES_IGNORE));
  } else if (peer != MPI_PROC_NULL) {
    for (int i : received) {
      Memory buffer(i % 2 == 0 ? Place::device : Place::host, largest);
      MPI_Status status;
      if (MUST(MPI_Recv(buffer, largest, MPI_BYTE, peer, sent[i].tag,
                        sent[i].on_other ? other : MPI_COMM_WORLD, &status))) {
        EXPECT_STATUS(status, peer, sent[i].tag, sent[i].bytes);
        EXPECT_HOLDS(buffer, key(peer, i), sent[i].bytes);
      }
    }
  }
  MUST(MPI_Comm_free(&other));
}

RANK_TEST(order, M1_each_source_keeps_its_order_under_wildcards, 2) {
  constexpr int per_source = 20;
  if (rank == 0) {
    std::vector<int> next(size, 0);
    for (int i = 0; i < per_source * (size - 1); ++i) {
      Memory buffer(receiver_place(i), largest);
      MPI_Status status;
      if (!MUST(MPI_Recv(buffer, largest, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status)))
        continue;
      const int source = status.MPI_SOURCE;
      EXPECT(source > 0 && source < size, "message from rank %d", source);
      if (source > 0 && source < size) expect_message(status, buffer, source, next[source]++);
    }
  } else {
    std::vector<Memory> out = outgoing();
    MPI_Request requests[per_source];
    for (int i = 0; i < per_source; ++i)
      MUST(MPI_Isend(out[i], static_cast<int>(bytes_of(i)), MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[i]));
    MUST(MPI_Waitall(per_source, requests, MPI_STATUSES_IGNORE));
  }
}
