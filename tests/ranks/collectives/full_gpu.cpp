// SPDX-License-Identifier: Apache-2.0
//
// Collectives while a kernel of the program fills the GPU. MPI promises no progress to a program whose kernel
// waits for the collective, because a kernel of the collective may find no place beside it; so these kernels
// end by themselves as far as the collective is concerned, and it must be complete then at the latest.

#include <sched.h>

#include <atomic>
#include <thread>

#include "collectives/exercise.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

// More than any GPU runs at once.
constexpr unsigned blocks = 1024, threads_of_a_block = 1024;
constexpr int yields = 10, tests = 20;  // before the kernel ends, if the collective is not complete sooner
constexpr Kind kinds[] = {Kind::barrier,   Kind::bcast,          Kind::allgatherv, Kind::alltoall,
                          Kind::allreduce, Kind::reduce_scatter, Kind::gather,     Kind::exscan};

Plan plan_of(Kind kind, int count, uint64_t salt) {
  Plan plan;
  plan.kind = kind;
  plan.root = size - 1;
  plan.count = count;
  plan.key = key_of(options.seed, static_cast<uint64_t>(kind), salt);
  return plan;
}

// On every rank, on one, or on all but one.
bool has_kernel(int variant) {
  return variant == 0 || (rank == 0) == (variant == 1);
}

// Each plan while its kernels may not be loaded yet, and again when they are.
template <class Body>
void for_each_plan(Body body) {
  const Team world(MPI_COMM_WORLD);
  int variant = 0;
  for (Kind kind : kinds)
    for (int count : {1, 50000}) {
      rearm_watchdog();
      const Plan plan = plan_of(kind, count, static_cast<uint64_t>(count));
      body(world, plan, variant % 3);
      {
        Collective loads(world, plan);
        loads.prepare();
        if (loads.call(Form::blocking)) loads.check();
      }
      body(world, plan, variant++ % 3);
    }
}

}  // namespace

// Another thread, which makes no MPI call, ends the kernel while the collective waits.
RANK_TEST(collectives, while_a_kernel_fills_the_gpu, 1) {
  for_each_plan([](const Team& world, const Plan& plan, int variant) {
    Collective collective(world, plan);
    collective.prepare();
    if (!has_kernel(variant)) {
      if (collective.call(Form::blocking)) collective.check();
      return;
    }
    bool called;
    {
      KernelInFlight kernel(blocks, threads_of_a_block);
      std::atomic<bool> begins = false;
      std::thread other([&] {
        while (!begins) sched_yield();
        for (int i = 0; i < yields; ++i) sched_yield();
        kernel.end();
      });
      begins = true;
      called = collective.call(Form::blocking);
      other.join();
    }
    if (called) collective.check();
  });
}

RANK_TEST(icollectives, while_a_kernel_fills_the_gpu, 1) {
  for_each_plan([](const Team& world, const Plan& plan, int variant) {
    Collective collective(world, plan);
    collective.prepare();
    MPI_Request request = MPI_REQUEST_NULL;
    if (has_kernel(variant)) {
      KernelInFlight kernel(blocks, threads_of_a_block);
      if (!collective.call(Form::nonblocking, &request)) return;
      int complete = 0;
      for (int i = 0; i < tests && !complete; ++i) {
        MUST(MPI_Test(&request, &complete, MPI_STATUS_IGNORE));
        sched_yield();
      }
      kernel.end();
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
      if (!collective.call(Form::nonblocking, &request)) return;
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    collective.check();
  });
}
