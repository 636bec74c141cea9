// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/sweep.h"

#include <algorithm>

#include "bench/mpi/repeat.h"

namespace fairlead::tools {

Sweep::Sweep(const BenchArguments& arguments, Benchmark kind, Partners partners, Channel& channel,
             Place place)
    : arguments_(arguments), kind_(kind), partners_(partners), channel_(channel), place_(place) {
  int rank = 0, size = 2;
  MPI_Comm_rank(partners.comm, &rank);
  MPI_Comm_size(partners.comm, &size);
  pairs_ = size / 2;
  pair_ = rank % pairs_;
  keeps_time_ = rank < pairs_;
  allocate(arguments.largest);
}

void Sweep::turn_to(Benchmark kind, int place) {
  kind_ = kind;
  partners_.place = place;
}

bool Sweep::one_message() const {
  return kind_ != Benchmark::bandwidth && kind_ != Benchmark::bidirectional &&
         kind_ != Benchmark::multi_bandwidth;
}

bool Sweep::one_way() const {
  return kind_ == Benchmark::bandwidth || kind_ == Benchmark::multi_bandwidth;
}

Measurement Sweep::measure(uint64_t bytes) {
  prepare(bytes, 0);
  const int64_t steps =
      warm_up(arguments_, partners_.comm, bytes, one_message() ? usual_messages : usual_windows,
              [&](int64_t number) { return timed(number, bytes); });
  buffers_->incoming.clear(arguments_.offset, bytes);
  MPI_Barrier(partners_.comm);
  Measurement m{.bytes = bytes, .iterations = steps};
  (one_message() ? m.latency_us : m.bandwidth_mb_s) = in_unit(bytes, over_pairs(timed(steps, bytes)));
  if (arguments_.validate) m.valid = validate(bytes);
  return m;
}

Measurement Sweep::measure_first(uint64_t bytes) {
  // Drivers take smaller ones from blocks that are shared, and mapped as a whole.
  constexpr uint64_t own_block = 2 << 20;
  std::vector<double> allocating, later;
  std::vector<std::vector<double>> numbered(static_cast<size_t>(arguments_.iterations));
  std::vector<std::shared_ptr<Buffers>> kept;  // or the next round would be given the same memory
  for (int round = 0; round < arguments_.rounds; ++round) {
    kept.push_back(buffers_);
    auto both = [&] { allocate(std::max(bytes, own_block)); };
    allocating.push_back(time_batches(1, both).front() / 2 * 1e6);
    MPI_Barrier(partners_.comm);
    std::vector<double> seconds = timed(arguments_.iterations, bytes);
    for (size_t i = 0; i < numbered.size(); ++i) numbered[i].push_back(seconds[i]);
    later.insert(later.end(), seconds.begin() + 2, seconds.end());
  }
  Measurement m{.bytes = bytes, .iterations = arguments_.iterations};
  m.allocate_us = distribution(allocating);
  m.first_us = in_unit(bytes, numbered[0]);
  m.second_us = in_unit(bytes, numbered[1]);
  m.later_us = in_unit(bytes, later);
  for (size_t i = 2; i < numbered.size(); ++i) {
    Distribution of_message = in_unit(bytes, numbered[i]);
    if (m.slowest_us && m.slowest_us->p50 >= of_message.p50) continue;
    m.slowest_us = of_message;
    m.slowest = static_cast<int64_t>(i) + 1;
  }
  if (arguments_.validate) m.valid = validate(bytes);
  return m;
}

double Sweep::once_us(uint64_t bytes) {
  return in_unit(bytes, timed(1, bytes)).p50;
}

void Sweep::allocate(uint64_t bytes) {
  buffers_.reset();
  buffers_ = std::make_shared<Buffers>(place_, bytes + arguments_.offset);
}

std::vector<double> Sweep::timed(int64_t steps, uint64_t bytes) {
  auto step = [&] { run_step(bytes); };
  if (!arguments_.fresh) return time_batches(steps, step);
  std::vector<double> seconds;
  for (int64_t i = 0; i < steps; ++i) {
    allocate(bytes);
    MPI_Barrier(partners_.comm);
    seconds.push_back(time_batches(1, step).front());
  }
  return seconds;
}

std::vector<double> Sweep::over_pairs(std::vector<double> seconds) const {
  if (pairs_ == 1) return seconds;
  if (!keeps_time_) std::fill(seconds.begin(), seconds.end(), 0);
  return means_over(pairs_, seconds, partners_.comm);
}

void Sweep::run_step(uint64_t bytes) {
  auto message = [&](const Buffer& buffer) {
    return static_cast<char*>(buffer.address()) + arguments_.offset;
  };
  void* from = sends() ? message(buffers_->outgoing) : nullptr;
  void* to = receives() ? message(buffers_->incoming) : nullptr;
  if (!one_message()) {
    channel_.window(from, to, bytes, arguments_.window);
  } else if (partners_.place == 0) {
    channel_.send(from, bytes);
    channel_.receive(to, bytes);
  } else {
    channel_.receive(to, bytes);
    channel_.send(from, bytes);
  }
}

Distribution Sweep::in_unit(uint64_t bytes, std::vector<double> seconds) const {
  double window_bytes = double(bytes) * arguments_.window * pairs_ * (one_way() ? 1 : 2);
  for (double& each : seconds) each = one_message() ? each * 1e6 / 2 : window_bytes / each / 1e6;
  return distribution(std::move(seconds));
}

uint64_t Sweep::seed(uint64_t bytes, int64_t iteration, int sender) const {
  return (static_cast<uint64_t>(pair_) << 54) + (bytes << 20) + static_cast<uint64_t>(iteration) * 2 +
         static_cast<uint64_t>(sender);
}

void Sweep::prepare(uint64_t bytes, int64_t iteration) {
  if (arguments_.fresh) allocate(bytes);
  buffers_->outgoing.write_pattern(arguments_.offset, bytes, seed(bytes, iteration, partners_.place));
  buffers_->incoming.clear(arguments_.offset, bytes);
  MPI_Barrier(partners_.comm);
}

bool Sweep::arrived(uint64_t bytes, int64_t iteration) const {
  return !receives() || buffers_->incoming.holds_pattern(arguments_.offset, bytes,
                                                         seed(bytes, iteration, 1 - partners_.place));
}

bool Sweep::validate(uint64_t bytes) {
  constexpr uint64_t large = 1 << 20;
  const int64_t iterations = bytes < large ? 10 : 3;
  // New buffers held nothing worth looking at.
  const bool filled = !arguments_.fresh && kind_ != Benchmark::first;
  int right = !filled || arrived(bytes, 0), right_everywhere = 0;
  for (int64_t i = 1; i <= iterations; ++i) {
    prepare(bytes, i);
    run_step(bytes);
    right = right && arrived(bytes, i);
  }
  MPI_Allreduce(&right, &right_everywhere, 1, MPI_INT, MPI_MIN, partners_.comm);
  return right_everywhere;
}

}  // namespace fairlead::tools
