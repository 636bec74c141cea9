// SPDX-License-Identifier: Apache-2.0
//
// Random programs of collectives: any of them on any of several communicators, blocking and nonblocking
// mixed, with point-to-point messages of device memory between; every result is checked. And very many small
// ones. The seed is printed; --seed N --rounds 1 repeats the first program of it, --seconds N goes on for
// long.

#include <list>
#include <random>

#include "collectives/exercise.h"
#include "harness/rounds.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

constexpr int tag = 53;
constexpr int steps = 30;
constexpr size_t most_pending = 6;
constexpr long short_soak = 200;

// Numbers that are the same on every rank.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_() % n; }
  bool chance(uint64_t percent) { return below(100) < percent; }
  uint64_t any() { return random_(); }

 private:
  std::mt19937_64 random_;
};

Plan random_plan(Dice& dice, const Team& team, Form form) {
  Plan plan;
  do plan.kind = static_cast<Kind>(dice.below(kind_count));
  while (is_neighborhood(plan.kind));
  plan.root = static_cast<int>(dice.below(static_cast<uint64_t>(team.local)));
  plan.count = static_cast<int>(dice.below(uint64_t{1} << dice.below(15)));
  plan.in_place = dice.chance(25) && may_be_in_place(plan.kind, form);
  plan.places = static_cast<Places>(dice.below(places_count));
  plan.types = static_cast<Types>(dice.below(types_count));
  plan.key = dice.any();
  return plan;
}

// A message around the ring of all ranks, on its way during the collectives.
struct RingMessage {
  RingMessage(uint64_t key, size_t bytes) : out(Place::device, bytes), in(Place::device, bytes) {
    const int left = (rank + size - 1) % size, count = static_cast<int>(bytes);
    out.fill(key_of(key, static_cast<uint64_t>(rank)));
    wanted = key_of(key, static_cast<uint64_t>(left));
    MUST(MPI_Irecv(in, count, MPI_BYTE, left, tag, MPI_COMM_WORLD, &requests[0]));
    MUST(MPI_Isend(out, count, MPI_BYTE, (rank + 1) % size, tag, MPI_COMM_WORLD, &requests[1]));
  }
  void finish() {
    if (MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE))) EXPECT_HOLDS(in, wanted, in.bytes());
  }
  Memory out, in;
  uint64_t wanted = 0;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

struct Pending {
  Collective collective;
  MPI_Request request;
};

void run_program(const std::list<Team>& teams, uint64_t seed) {
  Dice dice(seed);
  std::mt19937_64 own(seed + static_cast<uint64_t>(rank));  // the order of completion is each rank's own
  std::list<Pending> pending;
  std::list<RingMessage> messages;
  const auto finish_one = [&] {
    const auto chosen = std::next(pending.begin(), static_cast<std::ptrdiff_t>(own() % pending.size()));
    if (MUST(MPI_Wait(&chosen->request, MPI_STATUS_IGNORE))) chosen->collective.check();
    pending.erase(chosen);
  };
  for (int step = 0; step < steps; ++step) {
    const Team& team = *std::next(teams.begin(), static_cast<std::ptrdiff_t>(dice.below(teams.size())));
    if (dice.chance(20)) messages.emplace_back(dice.any(), dice.below(100000));
    const Form form = dice.chance(50) ? Form::nonblocking : Form::blocking;
    const Plan plan = random_plan(dice, team, form);
    if (form == Form::blocking) {
      run(team, plan);
    } else {
      pending.push_back({Collective(team, plan), MPI_REQUEST_NULL});
      pending.back().collective.prepare();
      if (!pending.back().collective.call(form, &pending.back().request)) pending.pop_back();
    }
    if (pending.size() >= most_pending) finish_one();
  }
  while (!pending.empty()) finish_one();
  for (RingMessage& message : messages) message.finish();
}

// On the slowest machine, too: ranks must learn about each other's memory before some take other paths.
constexpr long fewest_rounds = 8;

}  // namespace

RANK_TEST(collrandom, every_collective_gives_its_result, 1) {
  MPI_Comm duplicate, reversed, rotated;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
  MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
  MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, (rank + 1) % size, &rotated));
  {
    std::list<Team> teams;
    for (MPI_Comm comm : {MPI_COMM_WORLD, duplicate, reversed, rotated}) teams.emplace_back(comm);
    repeat(
        "collrandom", options.seconds, [&](uint64_t seed) { run_program(teams, seed); }, fewest_rounds);
  }
  for (MPI_Comm* comm : {&duplicate, &reversed, &rotated}) MUST(MPI_Comm_free(comm));
}

// --rounds 1000000 for the long form.
RANK_TEST(collsoak, many_small_sums, 1) {
  const long rounds = options.rounds > 0 ? options.rounds : short_soak;
  constexpr int count = 8;
  Memory send(Place::device, count * sizeof(int64_t)), receive(Place::device, count * sizeof(int64_t));
  for (long round = 0; round < rounds && failures() == 0; ++round) {
    if (round % 200 == 0) rearm_watchdog();
    int64_t mine[count], sum[count];
    for (int i = 0; i < count; ++i) mine[i] = round * (rank + 1) + i;
    send.write(mine, sizeof(mine));
    if (!MUST(MPI_Allreduce(send, receive, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD))) return;
    receive.read(sum, sizeof(sum));
    for (int i = 0; i < count; ++i) {
      const int64_t wanted =
          static_cast<int64_t>(round) * size * (size + 1) / 2 + static_cast<int64_t>(i) * size;
      EXPECT(sum[i] == wanted, "round %ld: sum %d is %lld, not %lld", round, i,
             static_cast<long long>(sum[i]), static_cast<long long>(wanted));
    }
  }
}
