// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/crash_line.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
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
thread_local volatile sig_atomic_t inside = 0;
struct sigaction before[3];

void die(int number, siginfo_t* info, void*) {
  const bool of_access = number != SIGABRT;
  if (inside || (of_access && reinterpret_cast<uintptr_t>(info->si_addr) - begin < bytes)) {
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, length);
  }
  // The signal comes again, by the same instruction or by abort(), and finds the handler of before.
  for (int i = 0; i < 3; ++i)
    if (signals[i] == number) sigaction(number, &before[i], nullptr);
  if (of_access && info->si_code <= 0) raise(number);  // sent by kill(): no instruction repeats it
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
  inside = 1;
}
CrashLine::Inside::~Inside() {
  inside = 0;
}

}  // namespace fairlead::mpi::network
