// SPDX-License-Identifier: Apache-2.0
//
// Persistent collectives (MPI 4): made in one order and started in any, they move each round's data, in as
// many rounds as one likes.

#include <dlfcn.h>

#include <algorithm>
#include <list>
#include <random>

#include "collectives/exercise.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

constexpr uint64_t rounds = 4;
constexpr int requests_at_once = 4;

bool missing() {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
  // MPICH 4.0.2 has them, but loses data from the first start on.
  skip("this MPICH's persistent collectives do not work");
  return true;
#endif
  const bool absent = !exists(Kind::allreduce, Form::persistent);
  if (absent) skip("the MPI has no persistent collectives");
  return absent;
}

Plan plan_of(Kind kind, uint64_t dice) {
  Plan plan;
  plan.kind = kind;
  plan.root = static_cast<int>(dice % static_cast<uint64_t>(size));
  plan.in_place = key_of(dice, 2) % 3 == 0 && may_be_in_place(kind, Form::persistent);
  plan.places = static_cast<Places>(key_of(dice, 3) % places_count);
  plan.types = static_cast<Types>(key_of(dice, 4) % types_count);
  plan.count = some_count(plan.types, key_of(dice, 1));
  plan.key = key_of(dice, 5);
  return plan;
}

void add_integers(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}

// Functions that the MPI at hand may lack.
using AllgatherInit = int (*)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Info,
                              MPI_Request*);
using AllreduceInit = int (*)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info,
                              MPI_Request*);
using AlltoallvInit = int (*)(const void*, const int*, const int*, MPI_Datatype, void*, const int*,
                              const int*, MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request*);
template <class Init>
Init init(const char* name) {
  return reinterpret_cast<Init>(dlsym(RTLD_DEFAULT, name));
}

int copied = 0, deleted = 0;
int copy_attribute(MPI_Comm, int, void*, void*, void*, int* copies) {
  ++copied;
  *copies = 0;
  return MPI_SUCCESS;
}
int delete_attribute(MPI_Comm, int, void*, void*) {
  ++deleted;
  return MPI_SUCCESS;
}

std::vector<MPI_Comm> errors_on;
void note_error(MPI_Comm* comm, int*, ...) {
  errors_on.push_back(*comm);
}

}  // namespace

RANK_TEST(pcollectives, of_every_kind_move_the_data_of_each_round, 1) {
  if (missing()) return;
  const Team world(MPI_COMM_WORLD);
  for (int kind = 0; kind < kind_count; ++kind) {
    if (is_neighborhood(static_cast<Kind>(kind))) continue;
    for (uint64_t variant = 0; variant < 3; ++variant) {
      Plan plan =
          plan_of(static_cast<Kind>(kind), key_of(options.seed, static_cast<uint64_t>(kind), variant));
      if (variant == 0) plan.places = Places::device;
      Collective collective(world, plan);
      MPI_Request request = MPI_REQUEST_NULL;
      if (!collective.call(Form::persistent, &request)) continue;
      for (uint64_t round = 0; round < rounds; ++round) {
        collective.prepare(round);
        MUST(MPI_Start(&request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        EXPECT(request != MPI_REQUEST_NULL, "completion freed a persistent collective");
        collective.check();
      }
      MUST(MPI_Request_free(&request));
    }
  }
}

// Ranks start and complete them in orders of their own, on different communicators and on one.
void start_in_any_order(bool on_one_communicator) {
  constexpr Kind kinds[requests_at_once] = {Kind::allreduce, Kind::bcast, Kind::alltoall, Kind::allgatherv};
  std::vector<MPI_Comm> comms(requests_at_once);
  std::list<Team> teams;
  std::list<Collective> collectives;
  std::vector<Collective*> by_number;
  std::vector<MPI_Request> requests(requests_at_once, MPI_REQUEST_NULL);
  for (size_t i = 0; i < comms.size(); ++i) {
    if (i == 0 || !on_one_communicator)
      MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    else
      comms[i] = comms[0];
    teams.emplace_back(comms[i]);
    by_number.push_back(
        &collectives.emplace_back(teams.back(), plan_of(kinds[i], key_of(options.seed, 90, i))));
    MUST(by_number[i]->call(Form::persistent, &requests[i]) ? MPI_SUCCESS : MPI_ERR_OTHER);
  }
  std::mt19937_64 random(options.seed + static_cast<uint64_t>(rank));
  std::vector<size_t> order = {0, 1, 2, 3};
  for (uint64_t round = 0; round < 20; ++round) {
    for (Collective* collective : by_number) collective->prepare(round);
    if (round % 3 == 0) {
      MUST(MPI_Startall(requests_at_once, requests.data()));
    } else {
      std::shuffle(order.begin(), order.end(), random);
      for (size_t i : order) MUST(MPI_Start(&requests[i]));
    }
    if (round % 2 == 0) {
      MUST(MPI_Waitall(requests_at_once, requests.data(), MPI_STATUSES_IGNORE));
    } else {
      std::shuffle(order.begin(), order.end(), random);
      for (size_t i : order) MUST(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    }
    for (const Collective* collective : by_number) collective->check();
  }
  for (size_t i = 0; i < comms.size(); ++i) {
    MUST(MPI_Request_free(&requests[i]));
    if (i == 0 || !on_one_communicator) MUST(MPI_Comm_free(&comms[i]));
  }
}

RANK_TEST(pcollectives, on_different_communicators_start_in_any_order, 1) {
  if (!missing()) start_in_any_order(false);
}

RANK_TEST(pcollectives, on_one_communicator_start_in_any_order, 1) {
  if (!missing()) start_in_any_order(true);
}

// More of them than a host MPI has communicators, freed at different times on different ranks.
RANK_TEST(pcollectives, come_and_go_in_thousands, 1) {
  if (missing()) return;
  const Team world(MPI_COMM_WORLD);
  std::list<Collective> kept;
  std::vector<MPI_Request> requests;
  for (uint64_t i = 0; i < 2500; ++i) {
    if (i % 100 == 0) rearm_watchdog();
    Plan plan = plan_of(Kind::allreduce, key_of(options.seed, 91, i));
    plan.count = 10;
    requests.push_back(MPI_REQUEST_NULL);
    Collective& collective = kept.emplace_back(world, plan);
    if (!collective.call(Form::persistent, &requests.back())) return;
    if (i % 50 == 0) {
      collective.prepare(i);
      MUST(MPI_Start(&requests.back()));
      MUST(MPI_Wait(&requests.back(), MPI_STATUS_IGNORE));
      collective.check();
    }
    if (requests.size() < 3 + static_cast<size_t>(rank)) continue;
    MUST(MPI_Request_free(&requests.front()));
    requests.erase(requests.begin());
    kept.pop_front();
  }
  for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
}

RANK_TEST(pcollectives, may_be_more_than_a_host_has_communicators, 1) {
  auto allreduce_init = init<AllreduceInit>("MPI_Allreduce_init");
  if (missing() || !allreduce_init) return;
  constexpr int count = 2100, started = 20;
  Memory buffer(Place::device, count * sizeof(int));
  const std::vector<int> ones(count, 1);
  buffer.write(ones.data(), buffer.bytes());
  std::vector<MPI_Request> requests(count, MPI_REQUEST_NULL);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i % 100 == 0) rearm_watchdog();
    int* mine = reinterpret_cast<int*>(buffer.data()) + i;
    MUST(
        allreduce_init(MPI_IN_PLACE, mine, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]));
  }
  MUST(MPI_Startall(started, &requests[count - started]));
  MUST(MPI_Waitall(started, &requests[count - started], MPI_STATUSES_IGNORE));
  std::vector<int> sums(count);
  buffer.read(sums.data(), buffer.bytes());
  for (int i = 0; i < count; ++i) {
    const int wanted = i < count - started ? 1 : size;
    EXPECT(sums[static_cast<size_t>(i)] == wanted, "element %d is %d, not %d", i,
           sums[static_cast<size_t>(i)], wanted);
  }
  for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
}

#if defined(OPEN_MPI)
// The names of Open MPI 4.1, which has no others.
RANK_TEST(pcollectives, have_the_names_of_an_extension, 1) {
  constexpr const char* names[] = {"Allgather",
                                   "Allgatherv",
                                   "Allreduce",
                                   "Alltoall",
                                   "Alltoallv",
                                   "Alltoallw",
                                   "Barrier",
                                   "Bcast",
                                   "Exscan",
                                   "Gather",
                                   "Gatherv",
                                   "Reduce",
                                   "Reduce_scatter",
                                   "Reduce_scatter_block",
                                   "Scan",
                                   "Scatter",
                                   "Scatterv",
                                   "Neighbor_allgather",
                                   "Neighbor_allgatherv",
                                   "Neighbor_alltoall",
                                   "Neighbor_alltoallv",
                                   "Neighbor_alltoallw"};
  if (!host_oracle)
    for (const char* name : names)
      EXPECT(dlsym(RTLD_DEFAULT, ("MPIX_" + std::string(name) + "_init").c_str()) ==
                 dlsym(RTLD_DEFAULT, ("MPI_" + std::string(name) + "_init").c_str()),
             "MPIX_%s_init is another function", name);
  const auto allreduce_init = init<AllreduceInit>("MPIX_Allreduce_init");
  if (!allreduce_init) return skip("the MPI has no such extension");
  Memory mine(Place::device, sizeof(int)), sum(Place::device, sizeof(int));
  const int one = 1;
  mine.write(&one, sizeof one);
  MPI_Request request;
  MUST(allreduce_init(mine, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  for (int round = 0; round < 2; ++round) {
    sum.clear();
    MUST(MPI_Start(&request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int found = 0;
    sum.read(&found, sizeof found);
    EXPECT(found == size, "the sum is %d", found);
  }
  MUST(MPI_Request_free(&request));
}
#endif

// The program's functions for attributes are for what the program does.
RANK_TEST(pcollectives, copy_no_attributes, 1) {
  auto allreduce_init = init<AllreduceInit>("MPI_Allreduce_init");
  if (missing() || !allreduce_init) return;
  copied = deleted = 0;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  Memory buffer(Place::device, sizeof(int));
  MUST(MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, nullptr));
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_set_attr(comm, key, nullptr));
  MUST(allreduce_init(MPI_IN_PLACE, buffer, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
  MUST(MPI_Request_free(&request));
  MUST(MPI_Comm_free(&comm));
  MUST(MPI_Comm_free_keyval(&key));
  EXPECT(copied == 0 && deleted == 1, "copied %d times, deleted %d times", copied, deleted);
}

// Whatever handler it had when another persistent collective of it was made.
RANK_TEST(pcollectives, raise_errors_on_their_communicator, 1) {
  auto allreduce_init = init<AllreduceInit>("MPI_Allreduce_init");
  if (missing() || !allreduce_init) return;
  errors_on.clear();
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  Memory buffer(Place::device, sizeof(double));
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(allreduce_init(MPI_IN_PLACE, buffer, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
  MUST(MPI_Request_free(&request));
  MUST(MPI_Comm_create_errhandler(note_error, &handler));
  MUST(MPI_Comm_set_errhandler(comm, handler));
  // No such operation exists. The host MPI may say so at once, or when it is started.
  allreduce_init(MPI_IN_PLACE, buffer, 1, MPI_DOUBLE, MPI_BAND, comm, MPI_INFO_NULL, &request);
  if (request != MPI_REQUEST_NULL) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MUST(MPI_Request_free(&request));
  }
  EXPECT(errors_on == std::vector{comm}, "%zu errors were raised", errors_on.size());
  MUST(MPI_Errhandler_free(&handler));
  MUST(MPI_Comm_free(&comm));
}

// Made in one order and started in another, the same one on every rank, which the standard allows; blocking
// and nonblocking ones between them.
RANK_TEST(pcollectives, share_a_communicator_with_all_other_forms, 1) {
  if (missing()) return;
  const Team world(MPI_COMM_WORLD);
  Collective first(world, plan_of(Kind::allreduce, key_of(options.seed, 91)));
  Collective second(world, plan_of(Kind::gatherv, key_of(options.seed, 92)));
  Collective third(world, plan_of(Kind::bcast, key_of(options.seed, 93)));
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  if (!first.call(Form::persistent, &requests[0]) || !second.call(Form::persistent, &requests[1])) return;
  for (uint64_t round = 0; round < 10; ++round) {
    for (Collective* collective : {&first, &second, &third}) collective->prepare(round);
    MUST(MPI_Start(&requests[1]));
    third.call(Form::nonblocking, &requests[2]);
    MUST(MPI_Start(&requests[0]));
    run(world, plan_of(Kind::allgather, key_of(options.seed, 94, round)));
    MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    for (const Collective* collective : {&first, &second, &third}) collective->check();
  }
  MUST(MPI_Request_free(&requests[0]));
  MUST(MPI_Request_free(&requests[1]));
}

// Made and never started, or freed after the last round, with its buffer gone since.
RANK_TEST(pcollectives, may_never_be_started, 1) {
  if (missing()) return;
  const Team world(MPI_COMM_WORLD);
  for (uint64_t round = 0; round < 20; ++round) {
    Collective collective(world, plan_of(Kind::allreduce, key_of(options.seed, 95, round)));
    MPI_Request request = MPI_REQUEST_NULL;
    if (!collective.call(Form::persistent, &request)) continue;
    MPI_Status status;
    MUST(MPI_Wait(&request, &status));  // it is inactive
    EXPECT_EMPTY(status);
    MUST(MPI_Request_free(&request));
    EXPECT(request == MPI_REQUEST_NULL, "Request_free left a handle");
  }
}

// What an inactive request uses may be freed; its starts go on using it.
RANK_TEST(pcollectives, keep_what_the_program_frees, 2) {
  if (missing()) return;
  MPI_Comm comm;
  MPI_Datatype contiguous;
  MPI_Op op;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Type_contiguous(3, MPI_INT, &contiguous));
  MUST(MPI_Type_commit(&contiguous));
  MUST(MPI_Op_create(add_integers, 1, &op));
  const Place place = rank % 2 == 0 ? Place::device : Place::host;
  Memory mine(place, 3 * sizeof(int)), all(place, 3 * sizeof(int) * static_cast<size_t>(size));
  Memory sum(place, 3 * sizeof(int));
  MPI_Request requests[2];
  if (!MUST(init<AllgatherInit>("MPI_Allgather_init")(mine, 1, contiguous, all, 1, contiguous, comm,
                                                      MPI_INFO_NULL, &requests[0])) ||
      !MUST(init<AllreduceInit>("MPI_Allreduce_init")(mine, sum, 3, MPI_INT, op, comm, MPI_INFO_NULL,
                                                      &requests[1])))
    return;
  // The MPIs at hand need not keep what they use.
  const auto free_all = [&] {
    MUST(MPI_Type_free(&contiguous));
    MUST(MPI_Op_free(&op));
    MUST(MPI_Comm_free(&comm));
  };
  if (!host_oracle) free_all();
  for (int round = 0; round < 10; ++round) {
    const int triple[] = {rank, round, 1};
    mine.write(triple, sizeof(triple));
    MUST(MPI_Startall(2, requests));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    std::vector<int> triples(3 * static_cast<size_t>(size)), sums(3);
    all.read(triples.data(), all.bytes());
    sum.read(sums.data(), sum.bytes());
    for (size_t other = 0; other < static_cast<size_t>(size); ++other)
      EXPECT(triples[3 * other] == static_cast<int>(other) && triples[3 * other + 1] == round,
             "round %d: triple %zu is wrong", round, other);
    EXPECT(sums[1] == size * round && sums[2] == size, "round %d: a sum is wrong", round);
  }
  for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
  if (host_oracle) free_all();
}

RANK_TEST(pcollectives, without_elements_may_name_one_address_twice, 1) {
  if (missing()) return;
  const auto alltoallv_init = init<AlltoallvInit>("MPI_Alltoallv_init");
  const std::vector<int> none(static_cast<size_t>(size), 0);
  for (Place place : host_and_device) {
    Memory buffer(place, 64);
    buffer.fill(key_of(9));
    MPI_Request request;
    MUST(alltoallv_init(buffer, none.data(), none.data(), MPI_INT, buffer, none.data(), none.data(), MPI_INT,
                        MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; ++round) {
      MUST(MPI_Start(&request));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    MUST(MPI_Request_free(&request));
    EXPECT_HOLDS(buffer, key_of(9), 64);
  }
}
