// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/messages/overlap.h"

#include <algorithm>
#include <chrono>

#include "bench/mpi/bench_kernels.h"

namespace fairlead::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Arithmetic each step of which needs the one before, so that its time does not depend on what else the core
// does.
void compute(int64_t rounds) {
  volatile double kept = 1;
  double value = kept;
  for (int64_t i = 0; i < rounds; ++i) value = value * 1.0000001 + 1e-9;
  kept = value;
}

}  // namespace

int64_t Computation::Pace::rounds(double seconds) const {
  return static_cast<int64_t>(std::max(0.0, seconds - fixed_s) / round_s);
}

template <class Compute>
Computation::Pace Computation::pace_of(const Compute& compute_and_wait) {
  // The least of some tries: the others were disturbed.
  auto least = [&](int64_t rounds) {
    double seconds = 1e9;
    for (int i = 0; i < 10; ++i) {
      auto start = Clock::now();
      compute_and_wait(rounds);
      seconds = std::min(seconds, seconds_since(start));
    }
    return seconds;
  };
  // Idle processors have lower clocks, by which rounds would seem to take longer than they will.
  for (auto start = Clock::now(); seconds_since(start) < 0.05;) compute_and_wait(1000);
  constexpr int64_t most = int64_t{1} << 30;
  const double fixed = least(0);
  int64_t rounds = 1000;
  double seconds = least(rounds);
  for (; seconds - fixed < 1e-4 && rounds < most; seconds = least(rounds)) rounds *= 2;
  return {fixed, std::max(seconds - fixed, 1e-6) / double(rounds)};
}

Computation::Gpu::Gpu(const BenchArguments& a, int device)
    : arguments(a),
      runtime(runtime_with_devices(a)),
      stream(runtime, device, a),
      kept(Place::device, compute_blocks * compute_threads * sizeof(float)) {
  kept.clear(0, compute_blocks * compute_threads * sizeof(float));
  const std::vector<device::CodeImage>& images = bench_kernel_images();
  require(runtime, runtime->find_kernel(device, images.data(), images.size(), "compute_rounds", &kernel),
          arguments, "-r: cannot load a kernel");
}

void Computation::Gpu::launch(int64_t rounds) {
  void* address = kept.address();
  auto number = static_cast<unsigned long>(rounds);
  void* parameters[] = {&address, &number};
  require(runtime, runtime->launch(kernel, compute_blocks, compute_threads, parameters, stream.get()),
          arguments, "cannot launch a kernel");
}

void Computation::Gpu::wait() {
  require(runtime, runtime->synchronize_stream(stream.get()), arguments, "cannot wait for a kernel");
}

Computation::Computation(const BenchArguments& arguments, int device) {
  if (arguments.target != "gpu") on_cpu_ = pace_of(compute);
  if (!arguments.computes_on_gpu()) return;
  gpu_.emplace(arguments, device);
  on_gpu_ = pace_of([this](int64_t rounds) {
    gpu_->launch(rounds);
    gpu_->wait();
  });
}

void Computation::plan(double seconds, int parts) {
  if (on_cpu_) cpu_rounds_ = on_cpu_->rounds(seconds / parts);
  if (gpu_) gpu_rounds_ = on_gpu_.rounds(seconds);
}

void Computation::start() {
  if (gpu_) gpu_->launch(gpu_rounds_);
}

void Computation::part() {
  if (on_cpu_) compute(cpu_rounds_);
}

void Computation::finish() {
  if (gpu_) gpu_->wait();
}

Overlap measure_overlap(NonblockingChannel& channel, const std::function<CollectiveCall()>& next_call,
                        Computation& computation, int64_t iterations, double compute_s, int tests) {
  computation.plan(compute_s, tests + 1);
  double overall = 0, starting = 0, between = 0, testing = 0, waiting = 0;
  for (int64_t i = 0; i < iterations; ++i) {
    CollectiveCall call = next_call();
    auto begin = Clock::now();
    channel.start(call);
    starting += seconds_since(begin);
    auto started = Clock::now();
    computation.start();
    for (int test = 0; test < tests; ++test) {
      computation.part();
      auto before = Clock::now();
      channel.test();
      testing += seconds_since(before);
    }
    computation.part();
    computation.finish();
    between += seconds_since(started);
    auto computed = Clock::now();
    channel.wait();
    waiting += seconds_since(computed);
    overall += seconds_since(begin);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  double mine[] = {overall, between - testing, starting, testing, waiting}, sums[5] = {};
  MPI_Reduce(mine, sums, 5, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (double& sum : sums) sum *= 1e6 / double(iterations) / ranks;
  return {sums[0], sums[1], sums[2], sums[3], sums[4]};
}

}  // namespace fairlead::tools
