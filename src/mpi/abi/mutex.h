// SPDX-License-Identifier: Apache-2.0
//
// The mutexes of src/mpi. The host MPI is also called under them, and may raise an error in such a call; a
// handler of the program's, however, calls MPI, which takes them. So a thread that holds one calls no handler
// (mpi/core/handler_relay.h): the call is put off until the thread holds none any more.
// tests/unit/floors_test.py checks that src/mpi has no other mutexes.

#pragma once

#include <functional>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace fairlead::mpi {

namespace detail {
extern constinit thread_local int mutexes_held;
extern constinit thread_local std::vector<std::function<void()>>* put_off;  // null: nothing
void make_calls_put_off();

inline void note_unlocked() {
  if (--mutexes_held == 0 && put_off) make_calls_put_off();
}

template <class Kind>
class BasicMutex {
 public:
  void lock() {
    kind_.lock();
    ++mutexes_held;
  }
  bool try_lock() {
    const bool locked = kind_.try_lock();
    mutexes_held += locked;
    return locked;
  }
  void unlock() {
    kind_.unlock();
    note_unlocked();
  }
  void lock_shared() {
    kind_.lock_shared();
    ++mutexes_held;
  }
  void unlock_shared() {
    kind_.unlock_shared();
    note_unlocked();
  }

 private:
  Kind kind_;
};
}  // namespace detail

using Mutex = detail::BasicMutex<std::mutex>;
using SharedMutex = detail::BasicMutex<std::shared_mutex>;

// Makes the call at once, or when this thread holds no mutex any more.
void call_without_mutexes(std::function<void()> call);

}  // namespace fairlead::mpi
