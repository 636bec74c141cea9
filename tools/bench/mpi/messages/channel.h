// SPDX-License-Identifier: Apache-2.0
//
// What carries the messages between two ranks: MPI, or NCCL for comparison. Every call returns
// when the operation is complete and the received bytes are in place.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/mpi/ranks.h"

namespace fairlead::tools {

class Channel {
 public:
  virtual ~Channel() = default;
  virtual std::string name() const = 0;

  virtual void send(const void* from, uint64_t bytes) = 0;
  virtual void receive(void* to, uint64_t bytes) = 0;
  // `count` messages of `bytes` each, in flight together. Null means that direction is not used.
  virtual void window(const void* from, void* to, uint64_t bytes, int count) = 0;
};

// The partner is a rank of the communicator.
std::unique_ptr<Channel> make_mpi_channel(int partner, Probe probe = Probe::none,
                                          MPI_Comm comm = MPI_COMM_WORLD);
// By requests that are made once for each size, and started for each message.
std::unique_ptr<Channel> make_persistent_channel(int partner);
// Messages in partitions. Both throw a cannot_run Failure where the host MPI has none; the first needs no
// MPI_Init.
void require_partitioned();
std::unique_ptr<Channel> make_partitioned_channel(int partner, int partitions);
// Between the two ranks of `pair`, collectively. Throws a Failure where no NCCL or RCCL library is found, or
// the GPU is simulated.
std::unique_ptr<Channel> make_nccl_channel(MPI_Comm pair);

}  // namespace fairlead::tools
