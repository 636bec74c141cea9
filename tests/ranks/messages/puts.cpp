// SPDX-License-Identifier: Apache-2.0
//
// M15: a sender writes to the buffer of a receive only if the host MPI matches its message with that receive,
// whatever receives, probes, cancels and communicators there are besides; and where it may, the message
// reaches a rank that makes no MPI call.

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 61, go = 62;
// Memory of this length is mapped from the first message on.
constexpr size_t bytes = 6 << 20;
constexpr int count = static_cast<int>(bytes);

// The ranks learn whether their GPUs reach each other.
void meet(int peer) {
  Memory out(Place::device, bytes), in(Place::device, bytes);
  for (int i = 0; i < 2; ++i)
    MUST(MPI_Sendrecv(out, count, MPI_BYTE, peer, go, in, count, MPI_BYTE, peer, go, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
}

// Rank 1 computes while it receives, and receives one message at a time, where it may have received many
// before: from then on it offers its buffers.
void compute_twice(MPI_Comm comm, int peer, int with_tag) {
  Memory buffer(Place::device, bytes);
  for (int i = 0; i < 2; ++i) {
    if (rank == 0) {
      MUST(MPI_Send(buffer, count, MPI_BYTE, peer, with_tag, comm));
      continue;
    }
    MPI_Request request;
    MUST(MPI_Irecv(buffer, count, MPI_BYTE, peer, with_tag, comm, &request));
    usleep(1000);
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}

// Rank 1 receives while it makes no MPI call: the sender would wait for ever if it did not write the message
// itself. It does so only where nobody has received with a wildcard, so these cases run in jobs of their own.
class Idle {
 public:
  void expect_message(MPI_Comm comm, bool persistent = false) {
    int mine = 0;
    MPI_Comm_rank(comm, &mine);
    const int peer = 1 - mine;
    compute_twice(comm, peer, tag);
    const int posted = flag_++, sent = flag_++;
    Memory buffer(Place::device, bytes);
    MPI_Request request;
    if (rank == 1) {
      if (persistent) {
        MUST(MPI_Recv_init(buffer, count, MPI_BYTE, peer, tag, comm, &request));
        MUST(MPI_Start(&request));
      } else {
        MUST(MPI_Irecv(buffer, count, MPI_BYTE, peer, tag, comm, &request));
      }
      flags_.raise(posted);
      flags_.await(sent);
      MPI_Status status;
      MUST(MPI_Wait(&request, &status));
      EXPECT_STATUS(status, peer, tag, bytes);
      EXPECT_HOLDS(buffer, key_of(posted), bytes);
      if (persistent) MUST(MPI_Request_free(&request));
    } else {
      buffer.fill(key_of(posted));
      flags_.await(posted);
      MUST(MPI_Isend(buffer, count, MPI_BYTE, peer, tag, comm, &request));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      flags_.raise(sent);
    }
  }

 private:
  SharedFlags flags_;
  int flag_ = 0;
};

// ---- Random messages ---------------------------------------------------------------------------------

struct Message {
  int tag;
  size_t bytes, room;
  Place from, to;
  bool cancelled;  // no message comes to this receive
};

constexpr int tags = 4;
constexpr size_t sizes[] = {0, 8, 96, 5000, 60000, 300000};

// In what one rank sends the other in one phase: the receives of one tag are posted in the order in which the
// messages are sent, but otherwise in another one.
struct Phase {
  std::vector<Message> sent, posted;
};

Phase plan(std::mt19937_64& random, bool mixed, bool cancels) {
  Phase phase;
  std::vector<Message> by_tag[tags];
  for (int n = static_cast<int>(random() % 9); n > 0; --n) {
    Message m{};
    m.tag = static_cast<int>(random() % tags);
    m.bytes = sizes[random() % std::size(sizes)];
    m.room = m.bytes + (random() % 3 == 0 ? 1000 : 0);
    m.from = mixed && random() % 8 == 0 ? Place::host : Place::device;
    m.to = mixed && random() % 8 == 0 ? Place::host : Place::device;
    phase.sent.push_back(m);
    by_tag[m.tag].push_back(m);
  }
  if (cancels) {
    // Behind all receives of its tag, which therefore has no message for it.
    Message m{};
    m.tag = static_cast<int>(random() % tags);
    m.room = 60000;
    m.to = Place::device;
    m.cancelled = true;
    by_tag[m.tag].push_back(m);
  }
  size_t next[tags] = {};
  for (;;) {
    std::vector<int> open;
    for (int t = 0; t < tags; ++t)
      if (next[t] < by_tag[t].size()) open.push_back(t);
    if (open.empty()) return phase;
    const int t = random() % 2 ? open.front() : open[random() % open.size()];
    phase.posted.push_back(by_tag[t][next[t]++]);
  }
}

void run(const Phase& out, const Phase& in, int peer, MPI_Comm comm, uint64_t seed) {
  std::mt19937_64 pauses(seed + static_cast<uint64_t>(rank));
  auto compute = [&] {
    if (pauses() % 3 == 0) usleep(static_cast<useconds_t>(pauses() % 400));
  };
  std::vector<Memory> sources, targets;
  std::vector<MPI_Request> receives(in.posted.size()), sends(out.sent.size());
  uint64_t numbers[tags] = {}, received[tags] = {};
  for (const Message& m : out.sent) {
    sources.emplace_back(m.from, m.bytes);
    sources.back().fill(key_of(seed, m.tag * 1000 + numbers[m.tag]++, rank));
  }
  for (const Message& m : in.posted) targets.emplace_back(m.to, m.room);
  const bool sends_first = pauses() % 2;
  for (int half = 0; half < 2; ++half) {
    const bool sending = (half == 0) == sends_first;
    for (size_t i = 0; i < (sending ? sends : receives).size(); ++i) {
      compute();
      if (sending)
        MUST(MPI_Isend(sources[i], static_cast<int>(out.sent[i].bytes), MPI_BYTE, peer, out.sent[i].tag, comm,
                       &sends[i]));
      else
        MUST(MPI_Irecv(targets[i], static_cast<int>(in.posted[i].room), MPI_BYTE, peer, in.posted[i].tag,
                       comm, &receives[i]));
    }
  }
  if (pauses() % 8 != 0) usleep(static_cast<useconds_t>(20 + pauses() % 400));
  for (size_t i = 0; i < receives.size(); ++i)
    if (in.posted[i].cancelled) MUST(MPI_Cancel(&receives[i]));
  std::vector<MPI_Status> statuses(receives.size());
  MUST(MPI_Waitall(static_cast<int>(receives.size()), receives.data(), statuses.data()));
  MUST(MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE));
  for (size_t i = 0; i < receives.size(); ++i) {
    const Message& m = in.posted[i];
    int cancelled = 0;
    MPI_Test_cancelled(&statuses[i], &cancelled);
    EXPECT(!cancelled == !m.cancelled, "a receive with tag %d was%s cancelled", m.tag,
           cancelled ? "" : " not");
    if (m.cancelled) {
      EXPECT_HOLDS(targets[i], 0, 0);
      continue;
    }
    EXPECT_STATUS(statuses[i], peer, m.tag, m.bytes);
    EXPECT_HOLDS(targets[i], key_of(seed, m.tag * 1000 + received[m.tag]++, peer), m.bytes);
  }
}

// One message to a receive with wildcards, or by a matched probe.
void receive_anything(int peer, MPI_Comm comm, bool probe) {
  Memory out(Place::device, 60000), in(Place::device, 60000);
  out.fill(key_of(rank, 9));
  MPI_Request request;
  MUST(MPI_Isend(out, 60000, MPI_BYTE, peer, 1, comm, &request));
  if (probe) {
    MPI_Message message;
    MUST(MPI_Mprobe(peer, 1, comm, &message, MPI_STATUS_IGNORE));
    MUST(MPI_Mrecv(in, 60000, MPI_BYTE, &message, MPI_STATUS_IGNORE));
  } else {
    MUST(MPI_Recv(in, 60000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
  }
  EXPECT_HOLDS(in, key_of(peer, 9), 60000);
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

}  // namespace

RANK_TEST(puts, M15_a_message_reaches_a_rank_that_computes, 2) {
  if (host_oracle) return skip("a plain MPI writes no messages to idle ranks");
  const bool here = rank < 2;
  if (here) meet(1 - rank);
  Idle idle;
  if (here)
    for (bool persistent : {false, true, true, false}) idle.expect_message(MPI_COMM_WORLD, persistent);

  const int color = here ? 0 : MPI_UNDEFINED, ring = size, periodic = 1;
  MPI_Comm made[4] = {MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL};
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &made[0]));
  MUST(MPI_Comm_split(made[0], color, -rank, &made[1]));
  MUST(MPI_Cart_create(MPI_COMM_WORLD, 1, &ring, &periodic, 0, &made[2]));
  if (here) MUST(MPI_Comm_dup(made[1], &made[3]));
  for (MPI_Comm comm : made)
    for (int i = 0; i < 2 && here && comm != MPI_COMM_NULL; ++i) idle.expect_message(comm);
  for (MPI_Comm& comm : made)
    if (comm != MPI_COMM_NULL) MUST(MPI_Comm_free(&comm));
}

// What was counted on a communicator ends with it.
RANK_TEST(soak, M15_a_message_reaches_a_rank_that_computes_after_many_communicators, 2) {
  if (host_oracle) return skip("a plain MPI writes no messages to idle ranks");
  if (rank < 2) meet(1 - rank);
  Idle idle;
  Memory buffer(Place::device, 8);
  for (int i = 0; i < 34; ++i) {
    rearm_watchdog();
    MPI_Comm comm;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int t = 0; t < 2000 && rank < 2; ++t)
      if (rank == 0)
        MUST(MPI_Send(buffer, 8, MPI_BYTE, 1, t, comm));
      else
        MUST(MPI_Recv(buffer, 8, MPI_BYTE, 0, t, comm, MPI_STATUS_IGNORE));
    MUST(MPI_Comm_free(&comm));
  }
  if (rank < 2) idle.expect_message(MPI_COMM_WORLD);
}

RANK_TEST(puts, M15_random_messages_match_as_posted, 2) {
  const int peer = partner();
  if (peer != MPI_PROC_NULL) meet(peer);
  if (rank == 0) std::printf("# seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::mt19937_64 random(options.seed);
  std::vector<MPI_Comm> kept;  // so that each program has a communicator with a handle of its own
  const long programs = options.rounds > 0 ? options.rounds : 32;
  for (long program = 0; program < programs; ++program) {
    rearm_watchdog();
    MPI_Comm comm;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    kept.push_back(comm);
    const bool mixed = program % 3 == 2, cancels = program % 5 == 4;
    for (int phase = 0; phase < 16; ++phase) {
      const Phase from_even = plan(random, mixed, cancels), from_odd = plan(random, mixed, cancels);
      const uint64_t seed = random();
      const bool anything = program % 4 == 3 && phase == 11;
      if (peer == MPI_PROC_NULL) continue;
      run(rank % 2 == 0 ? from_even : from_odd, rank % 2 == 0 ? from_odd : from_even, peer, comm, seed);
      // The other rank may be ahead by a phase unless there is something to cancel.
      if (cancels || anything) MUST(exchange_nothing(peer, go));
      if (anything) receive_anything(peer, comm, program % 8 == 7);
    }
  }
  for (MPI_Comm& comm : kept) MUST(MPI_Comm_free(&comm));
}

// A put that fails is tried again by its sender, which may be on its way into the host MPI (M6).
RANK_TEST(puts, M6_the_sender_enters_a_barrier, 2) {
  const int peer = partner();
  if (peer != MPI_PROC_NULL) meet(peer);
  Memory out(Place::device, bytes), in(Place::device, bytes);
  for (int round = 0; round < 40; ++round) {
    out.fill(key_of(round, rank));
    const bool receives = peer != MPI_PROC_NULL && rank % 2 == 1;
    MPI_Request request = MPI_REQUEST_NULL;
    if (receives)
      MUST(MPI_Irecv(in, count, MPI_BYTE, peer, tag + 6, MPI_COMM_WORLD, &request));
    else if (peer != MPI_PROC_NULL)
      usleep(4000), MUST(MPI_Isend(out, count, MPI_BYTE, peer, tag + 6, MPI_COMM_WORLD, &request));
    if (receives) {
      usleep(6000);
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT_HOLDS(in, key_of(round, peer), bytes);
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}

// The sender leaves such a buffer alone, and the receive fails as ever (M3).
RANK_TEST(puts, M15_a_message_that_is_too_long_is_not_written, 2) {
  if (host_oracle) return skip("a plain MPI writes what fits");
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  meet(peer);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Memory out(Place::device, bytes), in(Place::device, bytes);
  for (int round = 0; round < 3; ++round) {
    out.fill(key_of(round, rank));
    in.clear();
    const int room = round == 1 ? count / 2 : count;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MUST(MPI_Irecv(in, room, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
    MUST(exchange_nothing(peer, go));
    MUST(MPI_Isend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
    usleep(2000);
    if (room == count)
      MUST(MPI_Waitall(2, requests, statuses));
    else
      EXPECT_ERROR(MPI_Wait(&requests[0], &statuses[0]), MPI_ERR_TRUNCATE);
    MUST(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    if (room == count)
      EXPECT_HOLDS(in, key_of(round, peer), bytes);
    else
      EXPECT_HOLDS(in, 0, 0);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

// A message that was written to a buffer stays there: its receive is not cancelled, but one behind it is.
// Where the message waits elsewhere, the host MPI may still cancel its receive, and the next one gets it.
RANK_TEST(puts, M15_a_cancelled_receive_has_no_message, 2) {
  if (host_oracle) return skip("a plain MPI writes no messages to idle ranks");
  SharedFlags flags;
  if (rank > 1) return;
  meet(1 - rank);
  compute_twice(MPI_COMM_WORLD, 1 - rank, tag + 5);
  Memory first(Place::device, bytes), second(Place::device, bytes);
  MPI_Comm comm = MPI_COMM_WORLD;
  if (rank == 0) {
    first.fill(key_of(1));
    flags.await(0);
    MPI_Request request;
    MUST(MPI_Isend(first, count, MPI_BYTE, 1, tag + 5, comm, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    flags.raise(1);
    flags.await(2);
    first.fill(key_of(2));
    MUST(MPI_Send(first, count, MPI_BYTE, 1, tag + 5, comm));
    return;
  }
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MUST(MPI_Irecv(first, count, MPI_BYTE, 0, tag + 5, comm, &requests[0]));
  MUST(MPI_Irecv(second, count, MPI_BYTE, 0, tag + 5, comm, &requests[1]));
  flags.raise(0);
  flags.await(1);
  for (MPI_Request& request : requests) MUST(MPI_Cancel(&request));
  MUST(MPI_Waitall(2, requests, statuses));
  int cancelled[2];
  for (int i = 0; i < 2; ++i) MPI_Test_cancelled(&statuses[i], &cancelled[i]);
  EXPECT(cancelled[1], "a receive without a message was not cancelled");
  EXPECT_HOLDS(second, 0, 0);
  if (cancelled[0]) {
    EXPECT_HOLDS(first, 0, 0);
    MUST(MPI_Recv(first, count, MPI_BYTE, 0, tag + 5, comm, &statuses[0]));
  }
  EXPECT_HOLDS(first, key_of(1), bytes);
  flags.raise(2);
  // The messages are no longer counted, but arrive.
  MUST(MPI_Recv(second, count, MPI_BYTE, 0, tag + 5, comm, &statuses[1]));
  EXPECT_HOLDS(second, key_of(2), bytes);
}
