// SPDX-License-Identifier: Apache-2.0

#include "observe/signal.h"

#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "base/library_thread.h"

namespace fairlead::observe {
namespace {

sem_t told;
struct sigaction before;
std::atomic<bool> asked{false}, stopping{false};
std::thread* listener = nullptr;

void note(int signal, siginfo_t* information, void* context) {
  asked = true;
  sem_post(&told);
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(signal, information, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(signal);
}

}  // namespace

void start_listening(void (*told_to)()) {
  sem_init(&told, 0, 0);
  stopping = false;
  listener = new std::thread(start_library_thread("fairlead-stats", [told_to] {
    for (;;) {
      while (sem_wait(&told) != 0) {
      }
      if (asked.exchange(false)) told_to();
      if (stopping) return;
    }
  }));
  struct sigaction ours = {};
  ours.sa_sigaction = note;
  ours.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaction(SIGUSR1, nullptr, &before);
  sigaction(SIGUSR1, &ours, nullptr);
}

// The handler stays installed: without it, a late SIGUSR1 would terminate the process.
void stop_listening() {
  if (!listener) return;
  stopping = true;
  sem_post(&told);
  if (listener->joinable()) listener->join();
  delete listener;
  listener = nullptr;
}

}  // namespace fairlead::observe
