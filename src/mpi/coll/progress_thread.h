// SPDX-License-Identifier: Apache-2.0
//
// A thread that brings nonblocking collectives on the GPU forward while the program computes, or sits in a
// host MPI call that cannot be polled (M6). It makes no host MPI call itself, so the MPI's thread level does
// not matter. It is started by the first such collective, sleeps while there is none, and leaves most of its
// core to the program.

#pragma once

#include <condition_variable>
#include <thread>
#include <vector>

namespace fairlead::mpi {

class CollectiveOperation;

class ProgressThread {
 public:
  // Both under the engine's lock. An operation may be forgotten any number of times.
  void help(CollectiveOperation* operation);
  void forget(CollectiveOperation* operation);
  // In MPI_Finalize; without the lock.
  void stop();

 private:
  void run();

  std::thread thread_;
  std::condition_variable wake_;
  std::vector<CollectiveOperation*> operations_;
  bool stopping_ = false;
};

ProgressThread& progress_thread();

}  // namespace fairlead::mpi
