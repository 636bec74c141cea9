// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/crash_line.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace fairlead::mpi::network {
namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGABRT};

// Everything the handler needs is prepared here, because it may call little more than write().
char text[512];
size_t length = 0;
uintptr_t begin = 0;
size_t bytes = 0;
std::atomic<long> inside = 0;  // the thread; thread-local memory might have to be allocated in the handler
struct sigaction before[3];

long this_thread() {
  return syscall(SYS_gettid);
}

void die(int number, siginfo_t* info, void*) {
  const bool of_instruction = info->si_code > 0;
  if (inside == this_thread() ||
      (of_instruction && reinterpret_cast<uintptr_t>(info->si_addr) - begin < bytes)) {
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, length);
  }
  // When this handler returns, the signal comes once more and finds what was there before: an instruction is
  // repeated, and a signal that somebody sent, abort() among them, waits until this handler has returned.
  for (int i = 0; i < 3; ++i)
    if (signals[i] == number) sigaction(number, &before[i], nullptr);
  if (!of_instruction) syscall(SYS_rt_tgsigqueueinfo, getpid(), this_thread(), number, info);
}

}  // namespace

CrashLine::CrashLine(const std::string& line, const void* memory, size_t memory_bytes) {
  length = std::min(line.size(), sizeof text);
  std::memcpy(text, line.data(), length);
  begin = reinterpret_cast<uintptr_t>(memory);
  bytes = memory_bytes;
  struct sigaction action = {};
  action.sa_sigaction = die;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 3; ++i) sigaction(signals[i], &action, &before[i]);
}

// A handler that somebody else has set since stays.
CrashLine::~CrashLine() {
  for (int i = 0; i < 3; ++i) {
    struct sigaction now;
    if (sigaction(signals[i], nullptr, &now) == 0 && now.sa_sigaction == die)
      sigaction(signals[i], &before[i], nullptr);
  }
}

CrashLine::Inside::Inside() {
  inside = this_thread();
}
CrashLine::Inside::~Inside() {
  inside = 0;
}

}  // namespace fairlead::mpi::network
