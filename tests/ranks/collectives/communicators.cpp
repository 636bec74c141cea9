// SPDX-License-Identifier: Apache-2.0
//
// Collectives of device buffers on every kind of communicator: of one rank, duplicates, uneven and reversed
// parts, groups, topologies with their neighbours, intercommunicators, and thousands of them in turn.

#include "collectives/exercise.h"
#include "harness/host_mpi.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

constexpr int tag = 52;
// Of one rank, and of all: there a duplicate costs milliseconds where ranks share processors, so --rounds
// asks for more.
constexpr int made_in_turn = 3000, made_together = 100;
constexpr int alive_at_once = 300, alive_together = 20;

Plan plan_of(Kind kind, int root, uint64_t salt, Places places = Places::device) {
  constexpr int counts[] = {1, 100, 3001};
  Plan plan;
  plan.kind = kind;
  plan.root = root;
  plan.key = key_of(options.seed, static_cast<uint64_t>(kind), salt);
  plan.count = counts[plan.key % std::size(counts)];
  plan.in_place = key_of(plan.key) % 4 == 0;
  plan.places = places;
  plan.types = static_cast<Types>(key_of(plan.key, 1) % types_count);
  return plan;
}

// What the MPIs at hand get right.
bool works(const Team& team, Kind kind, Form form) {
  // Open MPI 4.1.4 and 5.0.11 and MPICH 5.0.2 hang in Iallgather between groups.
  if (team.inter && form != Form::blocking) return false;
#ifdef OPEN_MPI
  // Open MPI 4.1.4 crashes in Ialltoallw now and then, without Fairlead, too.
  if (kind == Kind::alltoallw && form != Form::blocking) return false;
#endif
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
  // MPICH 4.0.2 loses blocks of Neighbor_alltoallw in graphs.
  if (kind == Kind::neighbor_alltoallw) return false;
#endif
  return team.local > 0 && exists(kind, form);
}

// MPICH 4.0.2, 4.3.1 and 5.0.2 deliver other bytes of MPI_Ibcast and MPI_Bcast_init between groups, also on
// host memory and without Fairlead, where the root is not the first rank of its group and the receivers'
// datatype has gaps.
bool broadcasts_gaps([[maybe_unused]] Kind kind, [[maybe_unused]] Form form) {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 50003000
  return kind != Kind::bcast || form == Form::blocking || form == Form::large;
#else
  return true;
#endif
}

// Every collective that this communicator can have, blocking and not.
void run_all(MPI_Comm comm, int side = 0) {
  const Team team(comm, side);
  const int roots = team.inter ? 1 : team.local;
  for (int k = 0; k < kind_count; ++k) {
    const auto kind = static_cast<Kind>(k);
    if (is_neighborhood(kind) && !team.has_neighbors) continue;
    if (team.inter && !allows_intercommunicators(kind)) continue;
    if (!works(team, kind, Form::blocking)) continue;
    const uint64_t dice = key_of(options.seed, static_cast<uint64_t>(k));
    const int root = static_cast<int>(dice % static_cast<uint64_t>(roots));
    run(team, plan_of(kind, root, 1,
                      dice / 16 % 2 ? Places::device : static_cast<Places>(dice / 32 % places_count)));
    if (!works(team, kind, Form::nonblocking)) continue;
    Plan plan = plan_of(kind, root, 2);
    plan.in_place = plan.in_place && may_be_in_place(kind, Form::nonblocking);
    plan.root_side = team.inter ? 1 : 0;
    run(team, plan, Form::nonblocking);
  }
}

void run_all_and_free(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  run_all(comm);
  MUST(MPI_Comm_free(&comm));
}

// One small collective of device memory, whose result tells the communicator from others.
void sum_up(MPI_Comm comm, Memory& buffer, int which) {
  int members;
  MPI_Comm_size(comm, &members);
  const int mine = which;
  buffer.write(&mine, sizeof(mine));
  if (!MUST(MPI_Allreduce(MPI_IN_PLACE, buffer, 1, MPI_INT, MPI_SUM, comm))) return;
  int sum;
  buffer.read(&sum, sizeof(sum));
  EXPECT(sum == members * which, "the sum on communicator %d is %d, not %d", which, sum, members * which);
}

}  // namespace

RANK_TEST(communicators, of_one_rank, 1) {
  run_all(MPI_COMM_SELF);
}

RANK_TEST(communicators, duplicates, 1) {
  MPI_Comm duplicate, with_info, later;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
  MUST(MPI_Comm_dup_with_info(duplicate, MPI_INFO_NULL, &with_info));
  MPI_Request request = MPI_REQUEST_NULL;
  MUST(MPI_Comm_idup(duplicate, &later, &request));
  // While one is made, others work; also the one that it is made from.
  run(Team(with_info), plan_of(Kind::allreduce, 0, 5));
  run(Team(duplicate), plan_of(Kind::alltoall, 0, 6));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  run_all_and_free(later);
  run_all_and_free(with_info);
  run_all_and_free(duplicate);
}

// A rank need not come back to MPI between its first collective on a duplicate and one that it cannot leave.
RANK_TEST(communicators, a_duplicate_begins_with_a_nonblocking_collective, 2) {
  for (int early = 0; early < size; ++early) {
    MPI_Comm later = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MUST(MPI_Comm_idup(MPI_COMM_WORLD, &later, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    Memory buffer(Place::device, sizeof(int));
    buffer.write(&rank, sizeof(rank));
    MUST(MPI_Iallreduce(MPI_IN_PLACE, buffer, 1, MPI_INT, MPI_SUM, later, &request));
    if (rank != early) MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int sum = 0;
    buffer.read(&sum, sizeof(sum));
    EXPECT(sum == size * (size - 1) / 2, "rank %d is early: the sum is %d", early, sum);
    MUST(MPI_Comm_free(&later));
  }
}

// Where a member may not know yet where the others of a communicator meet, they do not look for its
// duplicate's place either: here it was made past Fairlead, and nothing, or a nonblocking collective, has
// been called on it.
RANK_TEST(communicators, duplicates_of_one_that_was_not_seen_being_made, 2) {
  Memory buffer(Place::device, sizeof(int)), first(Place::device, sizeof(int));
  for (int i = 0; i < 20; ++i) {
    MPI_Comm unseen = MPI_COMM_NULL, later = MPI_COMM_NULL;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MUST(HOST_MPI(Comm_dup)(MPI_COMM_WORLD, &unseen));
    first.fill(0);
    if (i % 2) MUST(MPI_Iallreduce(MPI_IN_PLACE, first, 1, MPI_INT, MPI_SUM, unseen, &requests[0]));
    MUST(MPI_Comm_idup(unseen, &later, &requests[1]));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    sum_up(later, buffer, i);
    sum_up(unseen, buffer, i);
    MUST(MPI_Comm_free(&later));
    MUST(MPI_Comm_free(&unseen));
  }
}

// A place in shared memory is given back, also where a duplicate is never used, and by many.
RANK_TEST(communicators, duplicates_of_duplicates, 2) {
  Memory buffer(Place::device, sizeof(int));
  MPI_Comm last;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &last));
  for (int i = 0; i < 1200; ++i) {
    if (i % 50 == 0) rearm_watchdog();
    MPI_Comm next[2];
    MPI_Request requests[2];
    MUST(MPI_Comm_idup(last, &next[0], &requests[0]));
    MUST(MPI_Comm_idup(last, &next[1], &requests[1]));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    MUST(MPI_Comm_free(&next[i % 2]));
    MUST(MPI_Comm_free(&last));
    last = next[(i + 1) % 2];
    if (i % 20 == 0) sum_up(last, buffer, i);
  }
  MUST(MPI_Comm_free(&last));
}

// A duplicate is begun behind a collective that some ranks have not come to yet, and which all must stage.
RANK_TEST(communicators, duplicates_behind_an_open_collective, 2) {
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  SharedFlags flags;
  for (int late = 0; late < size; ++late) {
    Memory buffer(rank == 0 ? Place::device : Place::host, sizeof(int));
    const int mine = rank + late;
    buffer.write(&mine, sizeof(mine));
    MPI_Comm later = MPI_COMM_NULL;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (rank == late) flags.await(late);
    MUST(MPI_Iallreduce(MPI_IN_PLACE, buffer, 1, MPI_INT, MPI_SUM, comm, &requests[0]));
    MUST(MPI_Comm_idup(comm, &later, &requests[1]));
    if (rank == (late + 1) % size) flags.raise(late);
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    int sum = 0;
    buffer.read(&sum, sizeof(sum));
    EXPECT(sum == size * (size - 1) / 2 + size * late, "rank %d is late: the sum is %d", late, sum);
    sum_up(later, buffer, late + 1);
    MUST(MPI_Comm_free(&later));
  }
  MUST(MPI_Comm_free(&comm));
}

RANK_TEST(communicators, parts_of_the_world, 1) {
  MPI_Comm part;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, rank, &part));  // one rank, and the others
  run_all_and_free(part);
  MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &part));
  run_all_and_free(part);
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, rank % 2 * 100 - rank, &part));
  run_all_and_free(part);
  MPI_Group world, some;
  MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
  std::vector<int> members;  // in reverse order, without rank 0 where there are others
  for (int member = size - 1; member >= (size > 1 ? 1 : 0); --member) members.push_back(member);
  MUST(MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &some));
  if (size == 1 || rank > 0) {
    MUST(MPI_Comm_create_group(MPI_COMM_WORLD, some, tag, &part));
    run_all_and_free(part);
  }
  MUST(MPI_Comm_create(MPI_COMM_WORLD, some, &part));
  run_all_and_free(part);
  MUST(MPI_Group_free(&some));
  MUST(MPI_Group_free(&world));
}

RANK_TEST(communicators, grids_and_their_neighbors, 1) {
  MPI_Comm grid;
  // A ring of two ranks has one neighbour on both sides: which block is whose then depends on the standard's
  // edition, so a ring needs three.
  const int ring[] = {size}, around[] = {size > 2};
  MUST(MPI_Cart_create(MPI_COMM_WORLD, 1, ring, around, 0, &grid));
  run_all_and_free(grid);
  int edges[] = {0, 0};
  constexpr int open[] = {0, 0};
  MUST(MPI_Dims_create(size, 2, edges));
  MUST(MPI_Cart_create(MPI_COMM_WORLD, 2, edges, open, 0, &grid));
  run_all_and_free(grid);
}

RANK_TEST(communicators, graphs_and_their_neighbors, 2) {
  // A star around rank 0.
  MPI_Comm graph;
  std::vector<int> ends, neighbors;
  for (int other = 1; other < size; ++other) neighbors.push_back(other);
  for (int member = 0; member < size; ++member) ends.push_back(size - 1 + member);
  neighbors.insert(neighbors.end(), static_cast<size_t>(size - 1), 0);
  MUST(MPI_Graph_create(MPI_COMM_WORLD, size, ends.data(), neighbors.data(), 0, &graph));
  run_all_and_free(graph);
  // Even ranks send to all, themselves included, and odd ones to the next. Everybody has a neighbour both
  // ways: without one, Open MPI takes a count of nothing for nothing to receive.
  std::vector<int> sources, destinations;
  for (int other = 0; other < size; ++other) {
    if (other % 2 == 0 || (other + 1) % size == rank) sources.push_back(other);
    if (rank % 2 == 0 || (rank + 1) % size == other) destinations.push_back(other);
  }
  MUST(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
                                      MPI_UNWEIGHTED, static_cast<int>(destinations.size()),
                                      destinations.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
  run_all_and_free(graph);
}

RANK_TEST(communicators, between_two_groups, 2) {
  for (bool uneven : {false, true}) {
    const int side = uneven ? rank > 0 : rank % 2;
    const int other_leader = uneven ? 1 - side : 1 - rank % 2;
    MPI_Comm half, inter;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half));
    MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other_leader, tag, &inter));
    run_all(inter, side);
    MPI_Comm merged;
    MUST(MPI_Intercomm_merge(inter, side, &merged));
    run(Team(merged), plan_of(Kind::allgather, 0, 9));
    MUST(MPI_Comm_free(&merged));
    MUST(MPI_Comm_free(&inter));
    MUST(MPI_Comm_free(&half));
  }
}

// The others pass anything as the communicator over which the leaders meet: it is not significant there.
RANK_TEST(communicators, between_two_groups_whose_leaders_know_each_other, 3) {
  Memory buffer(Place::device, 1000);
  MPI_Request pending;
  MUST(MPI_Irecv(buffer, 1000, MPI_BYTE, 0, tag, MPI_COMM_SELF, &pending));
  MPI_Comm half, inter, peers = MPI_COMM_WORLD;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
  if (rank > 1) peers = MPI_COMM_NULL;
#if defined(OPEN_MPI)  // MPICH looks at the handle
  if (rank > 1) peers = reinterpret_cast<MPI_Comm>(0x5a5a);
#endif
  MUST(MPI_Intercomm_create(half, 0, peers, rank > 1 ? -7 : 1 - rank % 2, tag, &inter));
  run(Team(inter, rank % 2), plan_of(Kind::allgather, 0, 9));
  MUST(MPI_Comm_free(&inter));
  MUST(MPI_Comm_free(&half));
  MUST(MPI_Send(buffer, 0, MPI_BYTE, 0, tag, MPI_COMM_SELF));
  MUST(MPI_Wait(&pending, MPI_STATUS_IGNORE));
}

// Two ranks and the others. Of the root's group one rank has no part in a rooted collective, and passes
// MPI_PROC_NULL with arguments like everybody's.
RANK_TEST(communicators, ranks_that_pass_MPI_PROC_NULL_as_root, 3) {
  // Between two ranks and one: with two on each side MPICH 4.0 itself delivers other bytes.
  const bool takes_part = rank < 3;
  const int side = rank > 1;
  MPI_Comm half, inter;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, takes_part ? side : MPI_UNDEFINED, rank, &half));
  if (!takes_part) return;
  MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, side ? 0 : 2, tag, &inter));
  const Team team(inter, side);
  for (int k = 0; k < kind_count; ++k) {
    const auto kind = static_cast<Kind>(k);
    if (!is_rooted(kind)) continue;
    for (int f = 0; f < form_count; ++f) {
      const auto form = static_cast<Form>(f);
      if (!exists(kind, form)) continue;
      for (Places places : {Places::host, Places::device}) {
        Plan plan = plan_of(kind, 1, 3, places);
        if (!broadcasts_gaps(kind, form) && plan.types == Types::derived) plan.types = Types::integers;
        run(team, plan, form);
      }
    }
  }
  MUST(MPI_Comm_free(&inter));
  MUST(MPI_Comm_free(&half));
}

// One rank, and the others: each group scatters the other's sum among its own members.
RANK_TEST(communicators, reductions_scattered_in_uneven_groups, 2) {
  const int side = rank > 0, local = side ? size - 1 : 1, part = 1000 * (size - 1) / local;
  const size_t all = 1000 * static_cast<size_t>(size - 1);
  MPI_Comm half, inter;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half));
  MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, tag, &inter));
  const auto contribution = [](int of, size_t item) { return 10000 * of + static_cast<int>(item); };
  std::vector<int> mine(all), counts(static_cast<size_t>(local), part), result(static_cast<size_t>(part));
  for (size_t item = 0; item < all; ++item) mine[item] = contribution(rank, item);
  for (bool block : {false, true}) {
    Memory in(Place::device, all * sizeof(int)), out(Place::device, result.size() * sizeof(int));
    in.write(mine.data(), in.bytes());
    if (block)
      MUST(MPI_Reduce_scatter_block(in, out, part, MPI_INT, MPI_SUM, inter));
    else
      MUST(MPI_Reduce_scatter(in, out, counts.data(), MPI_INT, MPI_SUM, inter));
    out.read(result.data(), out.bytes());
    for (size_t i = 0; i < result.size(); ++i) {
      const size_t item = i + (side ? static_cast<size_t>(rank - 1) * result.size() : 0);
      int sum = side ? contribution(0, item) : 0;
      for (int other = 1; !side && other < size; ++other) sum += contribution(other, item);
      if (result[i] == sum) continue;
      EXPECT(false, "%s: item %zu is %d, not %d", block ? "block" : "parts", item, result[i], sum);
      break;
    }
  }
  MUST(MPI_Comm_free(&inter));
  MUST(MPI_Comm_free(&half));
}

RANK_TEST(communicators, thousands_in_turn, 1) {
  Memory buffer(Place::device, sizeof(int));
  const int together = options.rounds > 0 ? static_cast<int>(options.rounds) : made_together;
  for (int i = 0; i < made_in_turn + together; ++i) {
    if (i % 50 == 0) rearm_watchdog();
    MPI_Comm comm;
    if (!MUST(MPI_Comm_dup(i < made_in_turn ? MPI_COMM_SELF : MPI_COMM_WORLD, &comm))) return;
    sum_up(comm, buffer, i);
    MUST(MPI_Comm_free(&comm));
  }
}

RANK_TEST(communicators, hundreds_at_once, 1) {
  Memory buffer(Place::device, sizeof(int));
  std::vector<MPI_Comm> comms(alive_at_once + alive_together, MPI_COMM_NULL);
  for (size_t i = 0; i < comms.size(); ++i)
    MUST(MPI_Comm_dup(i < alive_at_once ? MPI_COMM_SELF : MPI_COMM_WORLD, &comms[i]));
  for (size_t i = comms.size(); i-- > 0;) sum_up(comms[i], buffer, static_cast<int>(i));
  for (MPI_Comm& comm : comms) MUST(MPI_Comm_free(&comm));
}
