// SPDX-License-Identifier: Apache-2.0
//
// The requests and answers between the origins and the active-message targets of a window. They are messages
// in host memory on a communicator of the window's own. In each round of progress a target receives requests,
// acts on its memory and answers; it executes the requests of one origin in the order in which that origin
// sent them. All functions need the engine's lock.

#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>

#include "mpi/abi/host_mpi.h"
//
#include "mpi/rma/targets.h"
#include "rma/dead_owner.h"
#include "rma/wire.h"

namespace fairlead::mpi {

// Is the host MPI's request complete? The caller holds the engine's lock.
bool over(MPI_Request* request);

class ActiveMessages {
 public:
  using OnAnswer = std::function<void(const rma::Message&)>;

  explicit ActiveMessages(Targets& targets) : targets_(targets) {}

  // Is the number of outstanding requests to this target below the limit?
  bool may_ask(int target) const;
  void ask(int target, rma::Message request, OnAnswer on_answer);
  void advance();
  // True if this rank has nothing left to send and no request to answer.
  bool idle() const { return sending_.empty() && received_.empty() && waiting_.empty() && answers_.empty(); }

 private:
  struct Sending {
    rma::Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Receiving {
    int source = 0;
    rma::Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct WaitingLock {
    int source;
    uint64_t id;
    uint32_t ticket;
    bool exclusive;
  };
  void send(int to, rma::Message message);
  void answer(int to, uint64_t id, rma::Outcome outcome,
              rma::Message message = rma::Message(sizeof(rma::Header)));
  void look_for_messages();
  bool serve(const Receiving& received);
  bool serve_access(const Receiving& received);
  void serve_locks();

  Targets& targets_;
  uint64_t last_id_ = 0;
  std::map<int, int> under_way_;  // outstanding requests, by target
  struct Asked {
    int target;
    OnAnswer on_answer;
  };
  std::map<uint64_t, Asked> answers_;  // outstanding
  std::list<Sending> sending_;
  std::deque<Receiving> received_;
  std::list<WaitingLock> waiting_;
  rma::DeadOwnerDetector detector_;  // for accumulates at this rank
};

}  // namespace fairlead::mpi
