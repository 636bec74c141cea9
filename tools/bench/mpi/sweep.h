// SPDX-License-Identifier: Apache-2.0
//
// One step repeated between two ranks, for latency, bandwidth in one direction or in both, each rank's
// buffers where its placement letter says.
//
// With validation the timed run ends with a look at what it received, and further steps follow, each with new
// data and a cleared receive buffer: only that shows that every message is this one and not the last.
//
// With --fresh both ranks allocate their buffers anew before each step and free them after it. Only the step
// is timed: what a message costs that comes from memory nobody has seen, not what allocating costs.

#pragma once

#include <optional>

#include "bench/buffer.h"
#include "bench/mpi/channel.h"
#include "bench/mpi/ranks.h"
#include "bench/timing.h"

namespace fairlead::tools {

struct Pair {
  MPI_Comm comm = MPI_COMM_NULL;  // of the two ranks
  int place = 0;                  // 0 or 1: where only one sends, it is 0
};

class Sweep {
 public:
  Sweep(const BenchArguments& arguments, Benchmark kind, Pair pair, Channel& channel, Place place)
      : arguments_(arguments), kind_(kind), pair_(pair), channel_(channel), place_(place) {
    allocate(arguments.largest);
  }

  // From now on; the buffers remain.
  void turn_to(Benchmark kind, int place) {
    kind_ = kind;
    pair_.place = place;
  }

  Measurement measure(uint64_t bytes, bool simulated) {
    prepare(bytes, 0);
    Repetitions wanted = repetitions(arguments_, bytes, latency() ? usual_messages : usual_windows);
    int64_t trials = std::min(trial_steps, wanted.warmup);
    wanted = agreed(within_budget(arguments_, wanted, mean(timed(trials, bytes)), simulated));
    timed(wanted.warmup - trials, bytes);
    incoming_->clear(0, bytes);
    MPI_Barrier(pair_.comm);
    std::vector<double> seconds = timed(wanted.timed, bytes);
    Measurement m{.bytes = bytes, .iterations = wanted.timed};
    for (double& value : seconds) value = in_unit(bytes, value);
    (latency() ? m.latency_us : m.bandwidth_mb_s) = distribution(seconds);
    if (arguments_.validate) m.valid = validate(bytes);
    return m;
  }

 private:
  bool latency() const { return kind_ == Benchmark::latency; }
  bool receives() const { return kind_ != Benchmark::bandwidth || pair_.place == 1; }
  bool sends() const { return kind_ != Benchmark::bandwidth || pair_.place == 0; }

  void allocate(uint64_t bytes) {
    outgoing_.reset();
    incoming_.reset();
    outgoing_.emplace(place_, bytes);
    incoming_.emplace(place_, bytes);
  }

  // Seconds per step.
  std::vector<double> timed(int64_t steps, uint64_t bytes) {
    auto step = [&] { run_step(bytes); };
    if (!arguments_.fresh) return time_batches(steps, step);
    std::vector<double> seconds;
    for (int64_t i = 0; i < steps; ++i) {
      allocate(bytes);
      MPI_Barrier(pair_.comm);
      seconds.push_back(time_batches(1, step).front());
    }
    return seconds;
  }

  // Each rank's clock differs; that of one counts.
  Repetitions agreed(Repetitions r) const {
    MPI_Bcast(&r.timed, 1, MPI_INT64_T, 0, pair_.comm);
    MPI_Bcast(&r.warmup, 1, MPI_INT64_T, 0, pair_.comm);
    return r;
  }

  void run_step(uint64_t bytes) {
    void* from = sends() ? outgoing_->address() : nullptr;
    void* to = receives() ? incoming_->address() : nullptr;
    if (!latency()) {
      channel_.window(from, to, bytes, arguments_.window);
    } else if (pair_.place == 0) {
      channel_.send(from, bytes);
      channel_.receive(to, bytes);
    } else {
      channel_.receive(to, bytes);
      channel_.send(from, bytes);
    }
  }

  double in_unit(uint64_t bytes, double seconds) const {
    if (latency()) return seconds * 1e6 / 2;
    double directions = kind_ == Benchmark::bidirectional ? 2 : 1;
    return double(bytes) * arguments_.window * directions / seconds / 1e6;
  }

  static uint64_t seed(uint64_t bytes, int64_t iteration, int sender) {
    return (bytes << 20) + static_cast<uint64_t>(iteration) * 2 + static_cast<uint64_t>(sender);
  }

  void prepare(uint64_t bytes, int64_t iteration) {
    if (arguments_.fresh) allocate(bytes);
    outgoing_->write_pattern(0, bytes, seed(bytes, iteration, pair_.place));
    incoming_->clear(0, bytes);
    MPI_Barrier(pair_.comm);
  }

  bool arrived(uint64_t bytes, int64_t iteration) const {
    return !receives() || incoming_->holds_pattern(0, bytes, seed(bytes, iteration, 1 - pair_.place));
  }

  bool validate(uint64_t bytes) {
    constexpr uint64_t large = 1 << 20;
    const int64_t iterations = bytes < large ? 10 : 3;
    // Fresh buffers held nothing worth looking at.
    int right = arguments_.fresh || arrived(bytes, 0), right_everywhere = 0;
    for (int64_t i = 1; i <= iterations; ++i) {
      prepare(bytes, i);
      run_step(bytes);
      right = right && arrived(bytes, i);
    }
    MPI_Allreduce(&right, &right_everywhere, 1, MPI_INT, MPI_MIN, pair_.comm);
    return right_everywhere;
  }

  const BenchArguments& arguments_;
  Benchmark kind_;
  Pair pair_;
  Channel& channel_;
  Place place_;
  std::optional<Buffer> outgoing_, incoming_;
};

}  // namespace fairlead::tools
