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

std::unique_ptr<Channel> make_mpi_channel(int partner);  // a rank of MPI_COMM_WORLD
// Between ranks 0 and 1. Throws a Failure where no NCCL or RCCL library is found, or the GPU is simulated. Collective over the pair.
std::unique_ptr<Channel> make_nccl_channel(const Ranks& ranks);

}  // namespace fairlead::tools
