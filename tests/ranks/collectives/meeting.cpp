// SPDX-License-Identifier: Apache-2.0
//
// Short blocking collectives, whose ranks meet in a kernel once some of them were made: of every kind, in
// random order, where ranks are late, pass host memory in between, or use many communicators. The seed is
// printed.

#include <algorithm>
#include <chrono>
#include <list>
#include <random>
#include <thread>
#include <vector>

#include "collectives/exercise.h"
#include "harness/rounds.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

constexpr int steps = 60;

// The same on every rank.
Plan short_plan(std::mt19937_64& dice, const Team& team) {
  Plan plan;
  do plan.kind = static_cast<Kind>(dice() % kind_count);
  while (is_neighborhood(plan.kind));
  plan.root = static_cast<int>(dice() % static_cast<uint64_t>(team.local));
  plan.count = static_cast<int>(dice() % (uint64_t{1} << dice() % 13));
  plan.in_place = dice() % 4 == 0 && may_be_in_place(plan.kind);
  plan.places = dice() % 16 ? Places::device : static_cast<Places>(dice() % places_count);
  plan.types = static_cast<Types>(dice() % types_count);
  plan.key = dice();
  return plan;
}

}  // namespace

RANK_TEST(meeting, short_calls_of_every_kind, 2) {
  MPI_Comm reversed;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
  {
    const Team teams[] = {Team(MPI_COMM_WORLD), Team(reversed)};
    repeat(
        "meeting", options.seconds,
        [&](uint64_t seed) {
          std::mt19937_64 dice(seed);
          for (int step = 0; step < steps; ++step) {
            const Team& team = teams[dice() % 2];
            const Plan plan = short_plan(dice, team);
            const uint64_t late = dice() % 256;
            if (late == static_cast<uint64_t>(rank))
              std::this_thread::sleep_for(std::chrono::milliseconds(5));
            run(team, plan);
          }
        },
        2);
  }
  MUST(MPI_Comm_free(&reversed));
}

// More than have room for what their ranks would need.
RANK_TEST(meeting, on_many_communicators, 2) {
  constexpr int communicators = 100, calls = 8;
  std::list<MPI_Comm> kept;
  for (int number = 0; number < communicators; ++number) {
    MPI_Comm comm;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    const Team team(comm);
    Plan plan;
    plan.kind = Kind::allreduce;
    for (int call = 0; call < calls; ++call) {
      plan.count = 1 + call;
      plan.key = key_of(options.seed, static_cast<uint64_t>(number), static_cast<uint64_t>(call));
      run(team, plan);
    }
    kept.push_back(comm);
    if (number % 3) continue;
    MUST(MPI_Comm_free(&kept.front()));
    kept.pop_front();
  }
  for (MPI_Comm& comm : kept) MUST(MPI_Comm_free(&comm));
}

// An erroneous program, whose receive count is less than what comes: bytes behind the buffer stay as they
// are.
RANK_TEST(meeting, no_block_goes_beyond_a_receive_buffer, 2) {
  if (host_oracle) return skip("a host MPI may write beyond the buffer of such a receive");
  constexpr int sent = 64, received = 16, calls = 8;
  constexpr auto bytes = static_cast<size_t>(received) * sizeof(int);
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  const auto all = static_cast<size_t>(size);
  Memory from(Place::device, all * sent * sizeof(int)), to(Place::device, 2 * all * sent * sizeof(int));
  from.fill(1);
  const auto expect_guards = [&](size_t used, const char* what) {
    std::vector<char> found(to.bytes());
    to.read(found.data(), found.size());
    const std::vector<char> untouched(found.begin() + static_cast<long>(used), found.end());
    EXPECT(std::all_of(untouched.begin(), untouched.end(), [&](char byte) { return byte == found.back(); }),
           "%s wrote beyond the receive buffer", what);
    to.clear();
  };
  for (int call = 0; call < calls; ++call) {
    MPI_Allgather(from, sent, MPI_INT, to, received, MPI_INT, comm);
    expect_guards(all * bytes, "MPI_Allgather");
    MPI_Alltoall(from, sent, MPI_INT, to, received, MPI_INT, comm);
    expect_guards(all * bytes, "MPI_Alltoall");
    MPI_Gather(from, sent, MPI_INT, to, received, MPI_INT, 0, comm);
    expect_guards(rank == 0 ? all * bytes : 0, "MPI_Gather");
  }
  MUST(MPI_Comm_free(&comm));
}
