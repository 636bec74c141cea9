// SPDX-License-Identifier: Apache-2.0
//
// Requests of messages that are described once, started again and again, and freed with their owner.

#pragma once

#include <mpi.h>

#include <vector>

namespace ghost {

class RepeatedRequests {
 public:
  RepeatedRequests() = default;
  ~RepeatedRequests() {
    for (MPI_Request& request : requests_) MPI_Request_free(&request);
  }
  RepeatedRequests(const RepeatedRequests&) = delete;
  RepeatedRequests& operator=(const RepeatedRequests&) = delete;

  MPI_Request* add() { return &requests_.emplace_back(); }
  size_t size() const { return requests_.size(); }
  MPI_Request operator[](size_t n) const { return requests_[n]; }

  void start() { MPI_Startall(static_cast<int>(requests_.size()), requests_.data()); }
  void wait() { MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE); }

 private:
  std::vector<MPI_Request> requests_;
};

}  // namespace ghost
