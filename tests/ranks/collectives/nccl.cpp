// SPDX-License-Identifier: Apache-2.0
//
// Collectives that FAIRLEAD_COLL gives to NCCL give the same bytes as any others: by NCCL, where it can, or
// where some rank's memory lies on another GPU than before, or where NCCL is missing; nonblocking ones, in
// whatever order ranks start those of several communicators; and on communicators that come and go. Nobody
// waits for NCCL's end of a communicator that is freed.

#include <unistd.h>

#include <deque>
#include <vector>

#include "collectives/operations.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

constexpr Kind kinds[] = {Kind::allreduce,           Kind::reduce,   Kind::bcast,
                          Kind::allgather,           Kind::alltoall, Kind::reduce_scatter,
                          Kind::reduce_scatter_block};
constexpr int tag = 61;

Plan plan_of(Kind kind, int root, int count, uint64_t salt, bool in_place = false) {
  Plan plan;
  plan.kind = kind;
  plan.root = root;
  plan.count = count;
  plan.in_place = in_place;
  plan.types = Types::integers;
  plan.key = key_of(options.seed, static_cast<uint64_t>(kind) * 1000 + static_cast<uint64_t>(count), salt);
  return plan;
}

void sum_up(MPI_Comm comm, const Memory& buffer, int value) {
  int members = 0, sum = 0;
  MPI_Comm_size(comm, &members);
  copy(buffer, &value, sizeof value);
  if (!MUST(MPI_Allreduce(MPI_IN_PLACE, buffer, 1, MPI_INT, MPI_SUM, comm))) return;
  copy(&sum, buffer, sizeof sum);
  EXPECT(sum == members * value, "the sum is %d, not %d", sum, members * value);
}

}  // namespace

RANK_TEST(nccl, runs_every_collective_that_it_has, 2) {
  const Team world(MPI_COMM_WORLD);
  uint64_t salt = 0;
  for (Kind kind : kinds)
    for (int root : {0, size - 1})
      for (int count : {1, 5000})
        for (bool in_place : {false, true})
          if (!in_place || may_be_in_place(kind)) run(world, plan_of(kind, root, count, ++salt, in_place));
  for (Kind kind : kinds) run(world, plan_of(kind, 0, 100003, ++salt));
}

// Some types and operations NCCL has, of the others it must not be asked.
RANK_TEST(nccl, reduces_every_type_by_every_operation, 2) {
  uint64_t salt = 0;
  for (const Operation& operation : predefined_operations())
    check_reduction(operation,
                    {Kind::allreduce, MPI_COMM_WORLD, 0, 7, false, Place::device, Place::device, ++salt});
}

// Each communicator has its own of NCCL; the first calls on them come in another order than their making.
RANK_TEST(nccl, among_others_on_many_communicators, 2) {
  constexpr int alive = 4;
  MPI_Comm comms[alive];
  for (int round = 0; round < 2; ++round) {
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    MUST(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[1]));
    MUST(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &comms[2]));
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[3]));
    for (int which = alive; which-- > 0;) {
      const Team team(comms[which]), world(MPI_COMM_WORLD);
      Collective meanwhile(world, plan_of(Kind::allreduce, 0, 3000, static_cast<uint64_t>(round)));
      meanwhile.prepare();
      MPI_Request request = MPI_REQUEST_NULL;
      if (!meanwhile.call(Form::nonblocking, &request)) return;
      for (Kind kind : kinds) run(team, plan_of(kind, 0, 100, static_cast<uint64_t>(which)));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      meanwhile.check();
    }
    for (MPI_Comm& comm : comms) MUST(MPI_Comm_free(&comm));
  }
}

RANK_TEST(nccl, and_then_with_memory_of_another_device, 2) {
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  Memory here(Place::device, sizeof(int)), there(Place::other_device, sizeof(int));
  for (int value = 0; value < 4; ++value) {
    sum_up(comm, here, value);
    sum_up(comm, rank == 1 ? there : here, value);
  }
  MUST(MPI_Comm_free(&comm));
}

// The first rank is through with the communicator while the next still has a call on it.
RANK_TEST(nccl, ends_with_its_communicator_and_holds_up_nobody, 2) {
  Memory buffer(Place::device, sizeof(int)), message(Place::device, sizeof(int));
  for (int round = 0; round < 5; ++round) {
    MPI_Comm comm;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    sum_up(comm, buffer, round);
    MPI_Request request = MPI_REQUEST_NULL;
    MUST(MPI_Ibcast(buffer, 1, MPI_INT, 0, comm, &request));
    if (rank != 1) MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Comm_free(&comm));
    if (rank == 0) MUST(MPI_Send(message, 1, MPI_INT, 1, tag, MPI_COMM_WORLD));
    if (rank == 1) {
      MUST(MPI_Recv(message, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
  }
}

// It ends in MPI_Finalize.
RANK_TEST(nccl, a_communicator_is_never_freed, 2) {
  Memory buffer(Place::device, sizeof(int));
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  sum_up(comm, buffer, 7);
}

namespace {

// Sums of nonblocking reductions, several at once.
class Sums {
 public:
  explicit Sums(MPI_Comm comm) : comm_(comm) { MUST(MPI_Comm_size(comm, &members_)); }
  void start(int value) {
    const Memory& buffer = buffers_.emplace_back(Place::device, sizeof value);
    copy(buffer, &value, sizeof value);
    values_.push_back(value);
    MUST(MPI_Iallreduce(MPI_IN_PLACE, buffer, 1, MPI_INT, MPI_SUM, comm_, &requests_.emplace_back()));
  }
  void check() {
    MUST(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
    for (size_t i = 0; i < values_.size(); ++i) {
      int sum = 0;
      copy(&sum, buffers_[i], sizeof sum);
      EXPECT(sum == members_ * values_[i], "sum %zu is %d, not %d", i, sum, members_ * values_[i]);
    }
    buffers_.clear();
    values_.clear();
    requests_.clear();
  }

 private:
  MPI_Comm comm_;
  int members_ = 0;
  std::deque<Memory> buffers_;
  std::vector<int> values_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

// More than have records in the collective slot; all ranks wait, or compute meanwhile.
RANK_TEST(nccl, many_nonblocking_ones_at_once, 2) {
  Sums sums(MPI_COMM_WORLD);
  for (int round = 0; round < 3; ++round) {
    for (int value = 0; value < 20; ++value) sums.start(value);
    if (round > 0) usleep(30'000);
    sums.check();
  }
}

// By the progress thread: the program is elsewhere. Then by turns.
RANK_TEST(nccl, started_while_the_program_computes, 2) {
  Sums sums(MPI_COMM_WORLD);
  Memory buffer(Place::device, sizeof(int));
  for (int value = 0; value < 3; ++value) {
    sum_up(MPI_COMM_WORLD, buffer, value);
    sums.start(value);
    usleep(50'000);
    sums.check();
  }
}

// The kernels of NCCL would wait for each other for ever.
RANK_TEST(nccl, two_communicators_in_opposite_orders, 2) {
  MPI_Comm comms[2];
  for (MPI_Comm& comm : comms) MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  Sums sums[] = {Sums(comms[0]), Sums(comms[1])};
  Memory buffer(Place::device, sizeof(int));
  for (int round = 0; round < 12; ++round) {
    const int first = round % 3 == 0 ? 0 : rank % 2;
    for (int which : {first, 1 - first})
      for (int value = 0; value <= round % 4; ++value) sums[which].start(value + which);
    // A blocking one meets those under way, also on one of their communicators.
    if (round % 2 == 0) sum_up(round % 4 == 0 ? comms[1] : MPI_COMM_WORLD, buffer, round);
    for (int which : {1 - first, first}) sums[which].check();
  }
  for (MPI_Comm& comm : comms) MUST(MPI_Comm_free(&comm));
}
