// SPDX-License-Identifier: Apache-2.0
//
// Nonblocking collectives: started in the same order on all ranks, on one communicator and on several, they
// complete in any order, by any completion call, together with point-to-point requests; none of them waits
// for what a rank does on another communicator.

#include <sched.h>

#include <algorithm>
#include <list>
#include <numeric>
#include <random>

#include "collectives/exercise.h"
#include "harness/counted_errors.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

constexpr int tag = 51;
constexpr int in_flight = 8;

Kind random_kind(uint64_t dice) {
  const auto kind = static_cast<Kind>(dice % kind_count);
  return is_neighborhood(kind) ? random_kind(key_of(dice)) : kind;
}

Plan random_plan(Kind kind, uint64_t dice) {
  Plan plan;
  plan.kind = kind;
  plan.root = static_cast<int>(key_of(dice, 1) % static_cast<uint64_t>(size));
  plan.in_place = key_of(dice, 3) % 4 == 0 && may_be_in_place(plan.kind, Form::nonblocking);
  plan.places = static_cast<Places>(key_of(dice, 4) % places_count);
  plan.types = static_cast<Types>(key_of(dice, 5) % types_count);
  plan.count = some_count(plan.types, key_of(dice, 2));
  plan.key = key_of(dice, 6);
  return plan;
}

Plan random_plan(uint64_t dice) {
  return random_plan(random_kind(key_of(dice, 0, 1)), dice);
}

// A message of device memory around a ring of ranks.
struct RingMessage {
  RingMessage(uint64_t salt) : key_of_left(key_of(static_cast<uint64_t>((rank + size - 1) % size), salt)) {
    out.fill(key_of(static_cast<uint64_t>(rank), salt));
  }
  void start(MPI_Request* requests) {
    const int count = static_cast<int>(out.bytes());
    MUST(MPI_Irecv(in, count, MPI_BYTE, (rank + size - 1) % size, tag, MPI_COMM_WORLD, &requests[0]));
    MUST(MPI_Isend(out, count, MPI_BYTE, (rank + 1) % size, tag, MPI_COMM_WORLD, &requests[1]));
  }
  uint64_t key_of_left;
  Memory out{Place::device, 20000}, in{Place::device, 20000};
};

void add_integers(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}

// Completes all requests in an order of this rank's own.
enum class Completion { wait, test, waitany, waitsome, waitall, testall };
constexpr Completion completions[] = {Completion::wait,     Completion::test,    Completion::waitany,
                                      Completion::waitsome, Completion::waitall, Completion::testall};

void complete(std::vector<MPI_Request>& requests, Completion way, std::mt19937_64& random) {
  const int count = static_cast<int>(requests.size());
  std::vector<size_t> order(requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<int> indices(requests.size());
  int done = 0, index = 0;
  switch (way) {
    case Completion::wait:
      for (size_t i : order) MUST(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
      break;
    case Completion::test:
      for (size_t i : order)
        for (done = 0; !done && MUST(MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE));) sched_yield();
      break;
    case Completion::waitany:
      while (MUST(MPI_Waitany(count, requests.data(), &index, MPI_STATUS_IGNORE)) && index != MPI_UNDEFINED)
        continue;
      break;
    case Completion::waitsome:
      while (MUST(MPI_Waitsome(count, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE)) &&
             done != MPI_UNDEFINED)
        continue;
      break;
    case Completion::waitall:
      MUST(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE));
      break;
    case Completion::testall:
      while (!done && MUST(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE))) sched_yield();
      break;
  }
  for (const MPI_Request& request : requests)
    EXPECT(request == MPI_REQUEST_NULL, "a completed nonblocking collective left its request");
}

// Several collectives on these communicators at once, among point-to-point messages.
void run_together(const std::vector<Team>& teams, Completion way, uint64_t seed) {
  std::list<Collective> collectives;
  std::vector<MPI_Request> requests(in_flight, MPI_REQUEST_NULL);
  RingMessage message(seed);
  for (int i = 0; i < in_flight; ++i) {
    const uint64_t dice = key_of(seed, static_cast<uint64_t>(i));
    collectives.emplace_back(teams[dice % teams.size()], random_plan(dice)).prepare();
  }
  size_t next = 0;
  for (Collective& collective : collectives) collective.call(Form::nonblocking, &requests[next++]);
  requests.resize(in_flight + 2, MPI_REQUEST_NULL);
  message.start(&requests[in_flight]);
  std::mt19937_64 random(seed + static_cast<uint64_t>(rank));
  complete(requests, way, random);
  for (const Collective& collective : collectives) collective.check();
  EXPECT_HOLDS(message.in, message.key_of_left, message.in.bytes());
}

}  // namespace

RANK_TEST(icollectives, each_alone_in_all_mixtures, 1) {
  const Team world(MPI_COMM_WORLD);
  for (int kind = 0; kind < kind_count; ++kind) {
    if (is_neighborhood(static_cast<Kind>(kind))) continue;
    for (int places = 0; places < places_count; ++places) {
      Plan plan = random_plan(static_cast<Kind>(kind), key_of(options.seed, static_cast<uint64_t>(kind),
                                                              static_cast<uint64_t>(places)));
      plan.places = static_cast<Places>(places);
      run(world, plan, Form::nonblocking);
    }
  }
}

RANK_TEST(icollectives, reductions_to_each_root, 1) {
  const Team world(MPI_COMM_WORLD);
  for (uint64_t round = 0; round < 4; ++round) {
    for (int root = 0; root < size; ++root) {
      Plan plan = random_plan(Kind::reduce, key_of(options.seed, round, static_cast<uint64_t>(root)));
      plan.places = Places::device;
      plan.root = root;
      plan.in_place = round % 2;
      run(world, plan, Form::nonblocking);
    }
  }
}

RANK_TEST(icollectives, many_at_once_complete_in_any_order, 1) {
  const std::vector<Team> one = {Team(MPI_COMM_WORLD)};
  for (Completion way : completions)
    for (uint64_t round = 0; round < 3; ++round)
      run_together(one, way, key_of(options.seed, round, static_cast<uint64_t>(way)));
}

RANK_TEST(icollectives, many_at_once_on_several_communicators, 1) {
  MPI_Comm duplicate, reversed;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
  MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
  {
    const std::vector<Team> several = {Team(MPI_COMM_WORLD), Team(duplicate), Team(reversed)};
    for (Completion way : completions)
      for (uint64_t round = 0; round < 3; ++round)
        run_together(several, way, key_of(options.seed + 1, round, static_cast<uint64_t>(way)));
  }
  MUST(MPI_Comm_free(&duplicate));
  MUST(MPI_Comm_free(&reversed));
}

// Some ranks start, pass a barrier elsewhere and wait; the others wait before they enter the barrier, or come
// late.
RANK_TEST(icollectives, do_not_wait_for_other_communicators, 2) {
  MPI_Comm other;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &other));
  const Team world(MPI_COMM_WORLD);
  for (int variant = 0; variant < 4; ++variant) {
    for (Kind kind : {Kind::allreduce, Kind::bcast, Kind::alltoall, Kind::allgather}) {
      for (Places places : {Places::device, Places::odd_ranks_are_host}) {
        Plan plan = random_plan(
            kind, key_of(options.seed, static_cast<uint64_t>(variant), static_cast<uint64_t>(places)));
        plan.places = places;
        Collective collective(world, plan);
        collective.prepare();
        MPI_Request request = MPI_REQUEST_NULL;
        // Half of the ranks wait before they enter the barrier, which they can if all have started.
        const bool waits_first = (rank + variant) % 2 == 0;
        const bool late = variant >= 2 && waits_first;
        if (late) MUST(MPI_Barrier(other));  // the others have started, and are in the barrier
        if (!collective.call(Form::nonblocking, &request)) continue;
        if (waits_first && !late) MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (!late) MUST(MPI_Barrier(other));
        if (request != MPI_REQUEST_NULL) MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        collective.check();
      }
    }
  }
  MUST(MPI_Comm_free(&other));
}

// Far more of them than Fairlead keeps words of, while the other ranks are elsewhere, or this one is.
RANK_TEST(icollectives, hundreds_outstanding, 2) {
  constexpr size_t count = 200;
  MPI_Comm other;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &other));
  SharedFlags flags;
  int flag = 0;
  for (Places places : {Places::host, Places::device, Places::odd_ranks_are_host}) {
    const bool device = places == Places::device || (places == Places::odd_ranks_are_host && rank % 2 == 0);
    // Rank 0 is elsewhere while the others wait; they are late; or both are.
    for (int variant = 0; variant < 3; ++variant, ++flag) {
      Memory memory(device ? Place::device : Place::host, count * sizeof(int));
      const std::vector<int> mine(count, rank + variant);
      memory.write(mine.data(), memory.bytes());
      std::vector<MPI_Request> requests(count, MPI_REQUEST_NULL);
      if (rank > 0 && variant == 1) flags.await(flag);
      if (rank > 0 && variant == 2) MUST(MPI_Barrier(other));
      for (size_t i = 0; i < count; ++i)
        MUST(MPI_Iallreduce(MPI_IN_PLACE, memory.data() + i * sizeof(int), 1, MPI_INT, MPI_SUM,
                            MPI_COMM_WORLD, &requests[i]));
      if (rank == 0) flags.raise(flag);
      if (rank == 0 && variant != 1) MUST(MPI_Barrier(other));
      MUST(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE));
      if (rank > 0 && variant == 0) MUST(MPI_Barrier(other));
      std::vector<int> sums(count);
      memory.read(sums.data(), memory.bytes());
      const int sum = size * (size - 1) / 2 + size * variant;
      const auto wrong = std::find_if(sums.begin(), sums.end(), [&](int found) { return found != sum; });
      EXPECT(wrong == sums.end(), "variant %d: sum %td is %d, not %d", variant, wrong - sums.begin(), *wrong,
             sum);
    }
  }
  MUST(MPI_Comm_free(&other));
}

// As many reductions wait as communicators and their slots allow, each with a kernel of its own.
RANK_TEST(icollectives, thousands_of_kernels_outstanding, 2) {
  constexpr size_t communicators = 250, each = 8, count = 2000;
  std::vector<MPI_Comm> comms(communicators);
  for (MPI_Comm& comm : comms) MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  Memory in(Place::device, count * sizeof(float)), out(Place::device, communicators * each * in.bytes());
  const std::vector<float> mine(count, static_cast<float>(rank + 1));
  in.write(mine.data(), in.bytes());
  std::vector<MPI_Request> requests(communicators * each, MPI_REQUEST_NULL);
  for (size_t i = 0; i < requests.size(); ++i)
    MUST(MPI_Iallreduce(in, out.data() + i * in.bytes(), count, MPI_FLOAT, MPI_SUM, comms[i % communicators],
                        &requests[i]));
  MUST(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  std::vector<float> sums(requests.size() * count);
  out.read(sums.data(), out.bytes());
  const float sum = static_cast<float>(size * (size + 1) / 2);
  const auto wrong = std::find_if(sums.begin(), sums.end(), [&](float found) { return found != sum; });
  EXPECT(wrong == sums.end(), "sum %td is %g, not %g", wrong - sums.begin(), *wrong, sum);
  for (MPI_Comm& comm : comms) MUST(MPI_Comm_free(&comm));
}

// The host MPI refuses what is staged when it is its turn: the program's handler is told once.
RANK_TEST(icollectives, tell_of_an_error_once, 1) {
  MPI_Comm comm;
  MPI_Errhandler handler;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_create_errhandler(count_error, &handler));
  MUST(MPI_Comm_set_errhandler(comm, handler));
  Memory in(Place::device, sizeof(int)), out(Place::device, sizeof(int));
  errors_handled = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  CALL(MPI_Iallreduce(in, out, 1, MPI_INT, MPI_OP_NULL, comm, &request));
  if (request != MPI_REQUEST_NULL) CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT(errors_handled == 1, "the handler was called %d times", errors_handled);
  MUST(MPI_Errhandler_free(&handler));
  MUST(MPI_Comm_free(&comm));
}

static void send_to_oneself(MPI_Comm*, int*, ...) {
  ++errors_handled;
  constexpr int bytes = 4096;
  Memory out(Place::device, bytes), in(Place::device, bytes);
  out.fill(key_of(1));
  MPI_Request request = MPI_REQUEST_NULL;
  MUST(MPI_Irecv(in, bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &request));
  MUST(MPI_Send(out, bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_HOLDS(in, key_of(1), bytes);
}

// The root's block is too long. Progress meets that; the handler needs progress itself. Some host MPIs raise
// it on MPI_COMM_WORLD.
RANK_TEST(icollectives, let_an_error_handler_communicate, 2) {
  if (host_oracle) return skip("a host MPI may hold a lock while it calls a handler");
  MPI_Comm comm;
  MUST(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &comm));
  MPI_Errhandler handler, before;
  MUST(MPI_Comm_create_errhandler(send_to_oneself, &handler));
  MUST(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
  for (MPI_Comm raises : {comm, MPI_COMM_WORLD}) MUST(MPI_Comm_set_errhandler(raises, handler));
  errors_handled = 0;
  const bool is_root = rank % 2 == 0, errs = !is_root;
  Memory block(is_root ? Place::host : Place::device, 1000);
  MPI_Request request = MPI_REQUEST_NULL;
  CALL(MPI_Ibcast(block, is_root ? 1000 : 500, MPI_BYTE, 0, comm, &request));
  CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT(errors_handled == errs, "the handler was called %d times", errors_handled);
  MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
  for (MPI_Errhandler* one : {&handler, &before}) MUST(MPI_Errhandler_free(one));
  MUST(MPI_Comm_free(&comm));
}

// Also of a block without elements the type may be freed at once. The root comes late, with host memory.
RANK_TEST(icollectives, keep_the_type_of_an_empty_block, 2) {
  SharedFlags flags;
  MPI_Datatype pair;
  MUST(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
  MUST(MPI_Type_commit(&pair));
  std::vector<int> counts(static_cast<size_t>(size), 2), offsets(counts), all(2 * counts.size(), -1);
  counts[1] = 0;
  for (int member = 0; member < size; ++member) offsets[static_cast<size_t>(member)] = 2 * member;
  Memory mine(Place::device, 4 * sizeof(int));
  const int content[] = {rank, -2, rank, -2};
  mine.write(content, sizeof(content));
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) flags.await(1);
  MUST(MPI_Igatherv(mine, rank == 1 ? 0 : 1, pair, all.data(), counts.data(), offsets.data(), MPI_INT, 0,
                    MPI_COMM_WORLD, &request));
  MUST(MPI_Type_free(&pair));
  MPI_Datatype others[5];  // take its place, and are not committed
  for (MPI_Datatype& type : others) MUST(MPI_Type_contiguous(3, MPI_DOUBLE, &type));
  if (rank == 1) flags.raise(1);
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  for (size_t i = 0; rank == 0 && i < all.size(); ++i)
    EXPECT(all[i] == (i / 2 == 1 ? -1 : static_cast<int>(i / 2)), "item %zu is %d", i, all[i]);
  for (MPI_Datatype& type : others) MUST(MPI_Type_free(&type));
}

// What completed belongs to the user: the buffers hold something else at once, and serve the next round.
RANK_TEST(icollectives, give_their_buffers_back, 1) {
  const Team world(MPI_COMM_WORLD);
  for (Kind kind :
       {Kind::bcast, Kind::allreduce, Kind::alltoallv, Kind::gather, Kind::reduce_scatter_block}) {
    for (int count : {1, 100, 40000}) {
      Plan plan;
      plan.kind = kind;
      plan.count = count;
      plan.key = key_of(options.seed, static_cast<uint64_t>(kind), static_cast<uint64_t>(count));
      Collective collective(world, plan);
      for (uint64_t round = 0; round < 10; ++round) {
        collective.prepare(round);
        MPI_Request request = MPI_REQUEST_NULL;
        if (!collective.call(Form::nonblocking, &request)) continue;
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        collective.check();
      }
    }
  }
}

// Blocking and nonblocking ones on one communicator are in one order, too.
RANK_TEST(icollectives, overlap_blocking_ones, 1) {
  const Team world(MPI_COMM_WORLD);
  for (uint64_t round = 0; round < 20; ++round) {
    Collective outer(world, random_plan(key_of(options.seed, round, 7)));
    outer.prepare();
    MPI_Request request = MPI_REQUEST_NULL;
    if (!outer.call(Form::nonblocking, &request)) continue;
    run(world, random_plan(key_of(options.seed, round, 8)));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    outer.check();
  }
}

// A program may free what a collective uses while it is under way. Rank 0 does so before the others have
// come, with host memory: nothing of it can have reached the host MPI by then.
RANK_TEST(icollectives, keep_what_the_program_frees, 2) {
  constexpr int count = 100;
  const Place place = rank == 0 ? Place::device : Place::host;
  for (int round = 0; round < 10; ++round) {
    MPI_Comm comm;
    MPI_Datatype contiguous, strided;
    MPI_Op op;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MUST(MPI_Type_contiguous(3, MPI_INT, &contiguous));
    MUST(MPI_Type_vector(count, 1, 2, MPI_INT, &strided));
    MUST(MPI_Type_commit(&contiguous));
    MUST(MPI_Type_commit(&strided));
    MUST(MPI_Op_create(add_integers, 1, &op));
    const int triple[] = {rank, rank + round, round};
    const std::vector<int> ones(count, 1), pairs(2 * count, rank == 0 ? round : -1);
    Memory mine(place, sizeof(triple)), all(place, sizeof(triple) * static_cast<size_t>(size));
    Memory one(place, sizeof(int) * count), sum(place, sizeof(int) * count),
        spread(place, sizeof(int) * 2 * count);
    mine.write(triple, sizeof(triple));
    one.write(ones.data(), one.bytes());
    spread.write(pairs.data(), spread.bytes());
    if (rank > 0) MUST(MPI_Recv(nullptr, 0, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_Request requests[3];
    MUST(MPI_Iallgather(mine, 1, contiguous, all, 1, contiguous, comm, &requests[0]));
    MUST(MPI_Iallreduce(one, sum, count, MPI_INT, op, comm, &requests[1]));
    MUST(MPI_Ibcast(spread, 1, strided, 0, comm, &requests[2]));
    const auto free_all = [&] {
      MUST(MPI_Type_free(&contiguous));
      MUST(MPI_Type_free(&strided));
      MUST(MPI_Op_free(&op));
      EXPECT(contiguous == MPI_DATATYPE_NULL && strided == MPI_DATATYPE_NULL && op == MPI_OP_NULL,
             "what was freed keeps a handle");
    };
    // Open MPI 4.1.4 itself does not keep what it uses.
    const bool early = rank == 0 && !host_oracle;
    if (early) free_all();
    for (int other = 1; rank == 0 && other < size; ++other)
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD));
    if (early) MUST(MPI_Comm_free(&comm));
    MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    if (!early) free_all();
    if (!early) MUST(MPI_Comm_free(&comm));
    EXPECT(comm == MPI_COMM_NULL, "a freed communicator keeps a handle");
    std::vector<int> triples(3 * static_cast<size_t>(size)), sums(count), got(2 * count);
    all.read(triples.data(), all.bytes());
    sum.read(sums.data(), sum.bytes());
    spread.read(got.data(), spread.bytes());
    for (size_t other = 0; other < static_cast<size_t>(size); ++other)
      EXPECT(triples[3 * other + 1] == static_cast<int>(other) + round, "triple %zu is wrong", other);
    for (size_t i = 0; i < count; ++i) {
      EXPECT(sums[i] == size, "sum %zu is %d", i, sums[i]);
      EXPECT(got[2 * i] == round && (rank == 0 || got[2 * i + 1] == -1), "pair %zu is wrong", i);
    }
  }
}

// Host MPIs read the arrays in the call, and programs rely on that.
RANK_TEST(icollectives, have_read_their_arrays, 2) {
  if (host_oracle) return;
  const auto ranks = static_cast<size_t>(size);
  for (int round = 0; round < 3; ++round) {
    // Of host memory behind one of device memory, too, which waits for its turn.
    const Place place = round == 0 || (round == 1 && rank == 0) ? Place::device : Place::host;
    Memory mine(place, sizeof(int) * ranks), all(place, sizeof(int) * ranks),
        swapped(place, sizeof(int) * ranks);
    std::vector<int> numbers(ranks), got(ranks);
    for (int i = 0; i < size; ++i) numbers[static_cast<size_t>(i)] = 100 * rank + i;
    mine.write(numbers.data(), mine.bytes());
    Memory first(Place::device, sizeof(int));
    first.write(&rank, sizeof(rank));
    MPI_Request requests[3];
    std::vector<int> counts(ranks, 1), places(ranks);
    std::iota(places.begin(), places.end(), 0);
    if (rank > 0) MUST(MPI_Recv(nullptr, 0, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MUST(MPI_Iallreduce(MPI_IN_PLACE, first, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    MUST(MPI_Iallgatherv(mine, 1, MPI_INT, all, counts.data(), places.data(), MPI_INT, MPI_COMM_WORLD,
                         &requests[1]));
    MUST(MPI_Ialltoallv(mine, counts.data(), places.data(), MPI_INT, swapped, counts.data(), places.data(),
                        MPI_INT, MPI_COMM_WORLD, &requests[2]));
    std::fill(counts.begin(), counts.end(), 1 << 30);
    std::fill(places.begin(), places.end(), -1);
    for (int other = 1; rank == 0 && other < size; ++other)
      MUST(MPI_Send(nullptr, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD));
    MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    all.read(got.data(), all.bytes());
    for (int i = 0; i < size; ++i)
      EXPECT(got[static_cast<size_t>(i)] == 100 * i, "round %d: rank %d gave %d", round, i,
             got[static_cast<size_t>(i)]);
    swapped.read(got.data(), swapped.bytes());
    for (int i = 0; i < size; ++i)
      EXPECT(got[static_cast<size_t>(i)] == 100 * i + rank, "round %d: rank %d sent %d", round, i,
             got[static_cast<size_t>(i)]);
  }
}
