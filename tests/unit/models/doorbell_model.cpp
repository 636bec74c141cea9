// SPDX-License-Identifier: Apache-2.0
// The doorbell (node/doorbell.h) loses no ring: a progress thread that sleeps, for ever here, has no work,
// and listens while there is any.

#include <models/modelled.h>

#include "node/doorbell.cpp"

namespace modelled::node {
namespace {

using models::Machine;
using models::require;

struct Rank {
  Doorbell doorbell;
  std::atomic<uint64_t> arrived;  // as MemberArea::arrivals
  std::atomic<int> outstanding;   // as ProgressThread's
  models::Plain<int> work;
};

// As ProgressThread::listen().
void listen(Rank& rank) {
  rank.doorbell.listen(Hears::nothing);
  if (rank.outstanding.load() > 0) rank.doorbell.listen(Hears::arrivals);
}
// As ProgressThread::run(), until the first ring.
template <class Listen>
void sleep_until_work_comes(Rank& rank, Listen listen) {
  const auto work = [&rank] { return rank.arrived.load(std::memory_order_acquire) != 0; };
  const uint32_t rings = rank.doorbell.rings();
  listen(rank);
  if (!work()) {
    rank.doorbell.wait(rings, std::chrono::hours(1));
    require(rank.doorbell.rings() != rings && work(), "a ring without work");
  }
  (void)rank.work.read();
}
// As stand_by() in a thread of the program that starts an operation.
void start(Rank& rank) {
  rank.outstanding.fetch_add(1);
  rank.doorbell.listen(Hears::arrivals);
}
// As CollectiveSlot::arrive() and Node::ring() in another rank.
void arrive(Rank& rank) {
  rank.work.write(1);
  rank.arrived.store(1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  rank.doorbell.ring_if_heard(Hears::arrivals);
}

void listener(Machine::Run& run) {
  auto rank = std::make_shared<Rank>();
  run.thread([=] { sleep_until_work_comes(*rank, [](Rank& one) { one.doorbell.listen(Hears::arrivals); }); });
  run.thread([=] { arrive(*rank); });
}
void thread_of_the_process(Machine::Run& run) {
  auto rank = std::make_shared<Rank>();
  run.thread([=] { sleep_until_work_comes(*rank, listen); });
  run.thread([=] {
    rank->work.write(1);
    rank->arrived.store(1, std::memory_order_release);
    rank->doorbell.ring();
  });
}
// Whatever the two of them do at once, the owner listens while work is outstanding.
void start_beside_a_round(Machine::Run& run) {
  auto rank = std::make_shared<Rank>();
  rank->doorbell.listen(Hears::arrivals);
  run.thread([=] { listen(*rank); });
  run.thread([=] { start(*rank); });
  run.in_the_end = [=] {
    const uint32_t before = rank->doorbell.rings();
    rank->doorbell.ring_if_heard(Hears::arrivals);
    require(rank->doorbell.rings() != before, "nobody listens");
  };
}

TEST(Models, doorbell) {
  // The first has the barrier of the kernel behind it, of which no manual tells; the second a fence before
  // it.
  models::examine({listener, thread_of_the_process, start_beside_a_round},
                  {"doorbell.cpp, wait(): store, seq_cst -> release",
                   "doorbell_model.cpp, listen(): load, seq_cst -> acquire"});
}

}  // namespace
}  // namespace modelled::node
