// SPDX-License-Identifier: Apache-2.0
//
// A thread that progresses nonblocking collectives on the GPU while the program computes, or while it is
// blocked in a host MPI call that cannot be polled (M6). The thread calls no host MPI function, so the thread
// level of the MPI does not matter. The first such collective starts the thread. It sleeps while there is no
// such collective, and leaves most of its core to the program.

#pragma once

#include <condition_variable>
#include <thread>
#include <vector>

namespace fairlead::mpi {

class CollectiveOperation;

class ProgressThread {
 public:
  // The caller holds the engine's lock. It may call forget() for an operation any number of times.
  void help(CollectiveOperation* operation);
  void forget(CollectiveOperation* operation);
  // Called in MPI_Finalize, without the engine's lock. NCCL may use memory of the thread until it is
  // released.
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
