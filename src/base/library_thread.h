// SPDX-License-Identifier: Apache-2.0
//
// Threads of Fairlead's own inside the user's process. They take no signals, which the program's threads must
// handle, and have names, which debuggers, profilers and `top -H` show.

#pragma once

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"

namespace fairlead {

// `name`: at most 15 characters. Throws std::system_error where the process may have no more threads.
template <class Body>
std::thread start_necessary_thread(const char* name, Body body) {
  struct SignalsBlocked {
    SignalsBlocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  } blocked;
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

// The same for a thread that Fairlead can do without: then it logs a line, and the result is not joinable.
template <class Body>
std::thread start_library_thread(const char* name, Body body) {
  try {
    return start_necessary_thread(name, std::move(body));
  } catch (const std::system_error& error) {
    log_line(LogLevel::warn, "the thread %s cannot be created, Fairlead continues without it: %s", name,
             error.what());
    return {};
  }
}

}  // namespace fairlead
