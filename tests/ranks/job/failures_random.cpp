// SPDX-License-Identifier: Apache-2.0
//
// Random programs of messages and collectives, in which ranks are killed at random moments. The
// survivors revoke the communicator, make one of themselves, agree on where to go on, and do so. A step that
// succeeds on a rank must have given this rank what it had to. All but the moments of death follows from the
// seed, which is printed; --seed N repeats it.

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "harness/ulfm.h"

using namespace ranks;
using namespace ranks::ulfm;

namespace {

constexpr int steps = 60;

// Numbers that are the same on every rank.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_() % n; }
  bool chance(uint64_t percent) { return below(100) < percent; }

 private:
  std::mt19937_64 random_;
};

// One rank's walk through a program on one communicator.
class Walk {
 public:
  Walk(MPI_Comm comm, uint64_t seed) : comm_(comm), seed_(seed) {
    MPI_Comm_rank(comm, &me_);
    MPI_Comm_size(comm, &members_);
  }

  // The first error; MPI_SUCCESS: the step has given what it had to.
  int step(int number) {
    Dice dice(key_of(seed_, static_cast<uint64_t>(number), static_cast<uint64_t>(members_)));
    key_ = key_of(seed_, static_cast<uint64_t>(number));
    tag_ = number;
    place_ = dice.chance(75) ? Place::device : Place::host;
    const size_t lengths[] = {1 + dice.below(16), 1 + dice.below(3000), 1 + dice.below(60000),
                              1 + dice.below(400000)};
    elements_ = lengths[dice.below(4)];
    const uint64_t kind = dice.below(10), root = dice.below(static_cast<uint64_t>(members_));
    switch (kind) {
      case 0:
        return ring(false);
      case 1:
        return ring(true);
      case 2:
        return pairs();
      case 3:
        return to_one(static_cast<int>(root));
      case 4:
        return probed();
      case 5:
        return sum(false);
      case 6:
        return sum(true);
      case 7:
        return broadcast(static_cast<int>(root));
      case 8:
        return everything();
      default:
        return CALL(MPI_Barrier(comm_));
    }
  }

  // After a failure: what is still on its way ends, in whatever way.
  void end_pending() {
    for (Pending& one : pending_) CALL(MPI_Wait(&one.request, MPI_STATUS_IGNORE));
    pending_.clear();
  }

 private:
  struct Pending {
    MPI_Request request;
    Memory memory;
  };

  size_t bytes() const { return elements_ * sizeof(int); }
  int count() const { return static_cast<int>(bytes()); }
  int left() const { return (me_ + members_ - 1) % members_; }
  int right() const { return (me_ + 1) % members_; }
  uint64_t from(int member) const { return key_of(key_, static_cast<uint64_t>(member)); }
  Memory outgoing() const {
    Memory memory(place_, bytes());
    memory.fill(from(me_));
    return memory;
  }
  Memory incoming() const { return {place_, bytes()}; }
  void check(const Memory& memory, int source) const { EXPECT_HOLDS(memory, from(source), bytes()); }

  // Waits for both; what is not complete after an error is left to end_pending().
  int wait_for(MPI_Request (&requests)[2], Memory& in, Memory& out) {
    MPI_Status statuses[2];
    int result = CALL(MPI_Waitall(2, requests, statuses));
    if (result == MPI_SUCCESS) return result;
    for (int i = 0; i < 2; ++i) {
      if (error_class(result) == MPI_ERR_IN_STATUS && is_failure(statuses[i].MPI_ERROR))
        result = statuses[i].MPI_ERROR;
      if (requests[i] != MPI_REQUEST_NULL) pending_.push_back({requests[i], std::move(i == 0 ? in : out)});
    }
    return result;
  }

  int ring(bool synchronous) {
    Memory out = outgoing(), in = incoming();
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int result = CALL(MPI_Irecv(in, count(), MPI_BYTE, left(), tag_, comm_, &requests[0]));
    if (result == MPI_SUCCESS)
      result = CALL(
          (synchronous ? MPI_Issend : MPI_Isend)(out, count(), MPI_BYTE, right(), tag_, comm_, &requests[1]));
    if (result != MPI_SUCCESS) {
      if (requests[0] != MPI_REQUEST_NULL) pending_.push_back({requests[0], std::move(in)});
      return result;
    }
    result = wait_for(requests, in, out);
    if (result == MPI_SUCCESS) check(in, left());
    return result;
  }

  int pairs() {
    const int other = me_ ^ 1;
    if (other >= members_) return MPI_SUCCESS;
    Memory out = outgoing(), in = incoming();
    const int result = CALL(MPI_Sendrecv(out, count(), MPI_BYTE, other, tag_, in, count(), MPI_BYTE, other,
                                         tag_, comm_, MPI_STATUS_IGNORE));
    if (result == MPI_SUCCESS) check(in, other);
    return result;
  }

  int to_one(int root) {
    Memory memory = me_ == root ? incoming() : outgoing();
    if (me_ != root) return CALL(MPI_Send(memory, count(), MPI_BYTE, root, tag_, comm_));
    for (int other = 1; other < members_; ++other) {
      MPI_Status status;
      memory.clear();
      if (int result = CALL(MPI_Recv(memory, count(), MPI_BYTE, MPI_ANY_SOURCE, tag_, comm_, &status));
          result != MPI_SUCCESS)
        return result;
      check(memory, status.MPI_SOURCE);
    }
    return MPI_SUCCESS;
  }

  int probed() {
    Memory out = outgoing(), in = incoming();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int result = CALL(MPI_Isend(out, count(), MPI_BYTE, right(), tag_, comm_, &request));
    if (result != MPI_SUCCESS) return result;
    result = CALL(MPI_Probe(left(), tag_, comm_, &status));
    if (result == MPI_SUCCESS) {
      EXPECT_STATUS(status, left(), tag_, bytes());
      result = CALL(MPI_Recv(in, count(), MPI_BYTE, left(), tag_, comm_, MPI_STATUS_IGNORE));
    }
    if (result == MPI_SUCCESS) check(in, left());
    if (result == MPI_SUCCESS) return CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    pending_.push_back({request, std::move(out)});
    return result;
  }

  int sum(bool nonblocking) {
    Memory out = incoming(), in = incoming();
    const std::vector<int> mine(elements_, me_ + 1), wanted(elements_, members_ * (members_ + 1) / 2);
    out.write(mine.data(), bytes());
    const int n = static_cast<int>(elements_);
    MPI_Request request = MPI_REQUEST_NULL;
    int result = nonblocking ? CALL(MPI_Iallreduce(out, in, n, MPI_INT, MPI_SUM, comm_, &request))
                             : CALL(MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, comm_));
    if (nonblocking && result == MPI_SUCCESS) result = CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (result != MPI_SUCCESS) return result;
    std::vector<int> got(elements_);
    in.read(got.data(), bytes());
    EXPECT(got == wanted, "a sum of %d members is %d", members_, got[0]);
    return result;
  }

  int broadcast(int root) {
    Memory memory = me_ == root ? outgoing() : incoming();
    const int result = CALL(MPI_Bcast(memory, count(), MPI_BYTE, root, comm_));
    if (result == MPI_SUCCESS) check(memory, root);
    return result;
  }

  int everything() {
    Memory out = outgoing(), in(place_, bytes() * static_cast<size_t>(members_));
    const int result = CALL(MPI_Allgather(out, count(), MPI_BYTE, in, count(), MPI_BYTE, comm_));
    if (result != MPI_SUCCESS) return result;
    std::vector<char> got(in.bytes()), wanted(in.bytes());
    in.read(got.data(), got.size());
    for (int member = 0; member < members_; ++member)
      write_pattern(from(member), wanted.data() + static_cast<size_t>(member) * bytes(), bytes());
    EXPECT(got == wanted, "an allgather of %d members is wrong", members_);
    return result;
  }

  MPI_Comm comm_;
  uint64_t seed_, key_ = 0;
  int me_ = 0, members_ = 1, tag_ = 0;
  Place place_ = Place::host;
  size_t elements_ = 0;
  std::list<Pending> pending_;
};

// A rank that will be killed, in some step or soon after.
struct Victim {
  int rank, step;
  std::chrono::microseconds later;
};

std::vector<Victim> choose_victims(uint64_t seed) {
  Dice dice(seed);
  std::vector<int> all(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) all[static_cast<size_t>(i)] = i;
  std::vector<Victim> victims;
  // One in a job of two would leave nobody to go on with.
  for (int left = size; left > 2; --left) {
    const size_t chosen = dice.below(all.size());
    const bool at_once = dice.chance(25);
    victims.push_back({all[chosen], static_cast<int>(dice.below(steps)),
                       std::chrono::microseconds(at_once ? 0 : dice.below(8000))});
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return victims;
}

void die_later(std::chrono::microseconds time) {
  if (time.count() == 0) die();
  std::thread([time] {
    std::this_thread::sleep_for(time);
    die();
  }).detach();
}

// Gives this rank's step to go on from; the steps of the others may differ by then.
MPI_Comm recover(MPI_Comm comm, int* step) {
  for (int wanted = *step;;) {
    MUST(Comm_revoke(comm));
    MPI_Comm next = MPI_COMM_NULL;
    if (!MUST(Comm_shrink(comm, &next))) give_up("the survivors cannot find each other");
    MUST(MPI_Comm_free(&comm));
    comm = next;
    const int result = CALL(MPI_Allreduce(&wanted, step, 1, MPI_INT, MPI_MIN, comm));
    int all_agree = result == MPI_SUCCESS;
    if (CALL(Comm_agree(comm, &all_agree)) == MPI_SUCCESS && all_agree) return comm;
    EXPECT(result == MPI_SUCCESS || is_failure(result), "an agreement ended with %s",
           error_name(result).c_str());
  }
}

}  // namespace

RANK_TEST(failures, random_programs_go_on_without_the_ranks_that_were_killed, 2) {
  if (is_missing()) return;
  const std::vector<Victim> victims = choose_victims(options.seed);
  if (rank == 0) {
    std::printf("    failures: seed %llu;", static_cast<unsigned long long>(options.seed));
    for (const Victim& one : victims)
      std::printf(" rank %d dies %lld us after step %d begins;", one.rank,
                  static_cast<long long>(one.later.count()), one.step);
    std::printf("\n");
    std::fflush(stdout);
  }
  const auto mine =
      std::find_if(victims.begin(), victims.end(), [](const Victim& one) { return one.rank == rank; });
  MPI_Comm comm = everybody();
  auto walk = std::make_unique<Walk>(comm, options.seed);
  bool dies = false;
  for (int step = 0; step < steps;) {
    rearm_watchdog();
    if (mine != victims.end() && step >= mine->step && !dies) {
      dies = true;
      die_later(mine->later);
    }
    int result = walk->step(step);
    // Whoever has finished all steps waits for the others, which may need it.
    int all_there = result == MPI_SUCCESS;
    if (result == MPI_SUCCESS && step + 1 == steps) result = CALL(Comm_agree(comm, &all_there));
    if (result == MPI_SUCCESS && all_there) {
      ++step;
      continue;
    }
    EXPECT(result == MPI_SUCCESS || is_failure(result), "step %d ended with %s", step,
           error_name(result).c_str());
    MUST(Comm_revoke(comm));
    walk->end_pending();
    comm = recover(comm, &step);
    walk = std::make_unique<Walk>(comm, options.seed);
  }
  if (mine != victims.end()) die();
  walk.reset();
  MPI_Comm living = survivors_of(&comm);
  int members = 0;
  MPI_Comm_size(living, &members);
  EXPECT(members == size - static_cast<int>(victims.size()), "%d ranks are left of %d", members, size);
  Walk last(living, options.seed + 1);
  for (int step = 0; step < steps; ++step) MUST(last.step(step));
  MUST(MPI_Comm_free(&living));
}
