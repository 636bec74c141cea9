// SPDX-License-Identifier: Apache-2.0
//
// A library preloaded into ranks: who finds nothing to do sleeps now and then. Tests have more ranks than
// processors, and a rank that only spins or yields keeps a processor from those with work for whole time
// slices: with it tests take a third of the time. Open MPI yields where ranks share a processor, MPICH over
// UCX does not.

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr unsigned long microseconds = 20;

}  // namespace

// Of a row of calls every few sleep, so that those who only look once are not held up.
extern "C" int sched_yield() {
  constexpr unsigned between_naps = 4;
  static thread_local unsigned calls = 0;
  if (++calls % between_naps == 0) return usleep(microseconds);
  return static_cast<int>(syscall(SYS_sched_yield));
}

extern "C" unsigned ucp_worker_progress(void* worker) {
  constexpr unsigned patience = 4;
  static const auto real = reinterpret_cast<unsigned (*)(void*)>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  static thread_local unsigned idle = 0;
  const unsigned done = real(worker);
  idle = done ? 0 : idle + 1;
  if (idle > patience)
    usleep(microseconds);
  else if (idle > 0)
    syscall(SYS_sched_yield);
  return done;
}
