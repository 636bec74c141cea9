// SPDX-License-Identifier: Apache-2.0
//
// One step repeated between two ranks, or between many pairs at once: for latency, bandwidth in one direction
// or in both, each rank's buffers where its placement letter says.
//
// With validation the timed run ends with a look at what it received, and further steps follow, each with new
// data and a cleared receive buffer: only that shows that every message is this one and not the last.
//
// With --fresh both ranks allocate their buffers anew before each step and free them after it. Only the step
// is timed: what a message costs that comes from memory nobody has seen, not what allocating costs.

#pragma once

#include <memory>
#include <vector>

#include "bench/buffer.h"
#include "bench/message_report.h"
#include "bench/mpi/messages/channel.h"
#include "bench/mpi/ranks.h"
#include "bench/timing.h"

namespace fairlead::tools {

// Who measures at once: each rank of the first half of a communicator with one of the second.
struct Partners {
  MPI_Comm comm = MPI_COMM_NULL;
  int place = 0;  // 0 or 1: where only one sends, it is 0
};

class Sweep {
 public:
  Sweep(const BenchArguments& arguments, Benchmark kind, Partners partners, Channel& channel, Place place);

  // From now on; the buffers remain.
  void turn_to(Benchmark kind, int place);

  // The results are those of the communicator's first rank, by the clocks of its first half.
  Measurement measure(uint64_t bytes);
  // Of messages with new buffers.
  Measurement measure_first(uint64_t bytes);
  // The time of one step, once.
  double once_us(uint64_t bytes);

 private:
  // An outgoing and an incoming message.
  struct Buffers {
    Buffers(Place place, uint64_t bytes) : outgoing(place, bytes), incoming(place, bytes) {}
    Buffer outgoing, incoming;
  };

  bool one_message() const;
  bool receives() const { return !one_way() || partners_.place == 1; }
  bool sends() const { return !one_way() || partners_.place == 0; }
  bool one_way() const;

  void allocate(uint64_t bytes);
  // Seconds per step, an element for each batch; of this rank.
  std::vector<double> timed(int64_t steps, uint64_t bytes);
  // The mean over the pairs of each element.
  std::vector<double> over_pairs(std::vector<double> seconds) const;
  void run_step(uint64_t bytes);
  Distribution in_unit(uint64_t bytes, std::vector<double> seconds) const;

  uint64_t seed(uint64_t bytes, int64_t iteration, int sender) const;
  void prepare(uint64_t bytes, int64_t iteration);
  bool arrived(uint64_t bytes, int64_t iteration) const;
  bool validate(uint64_t bytes);

  const BenchArguments& arguments_;
  Benchmark kind_;
  Partners partners_;
  Channel& channel_;
  Place place_;
  int pairs_ = 1, pair_ = 0;  // how many there are, and which this rank is of
  bool keeps_time_ = true;
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace fairlead::tools
