// SPDX-License-Identifier: Apache-2.0
//
// What benchmarks of copies inside this process share: streams, failures in words, and how long a step takes.

#pragma once

#include <vector>

#include "bench/options/arguments.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "device/runtime.h"

namespace fairlead::tools {

// Throws a cannot_run Failure with the provider's words, where there are any.
void require(device::Runtime* runtime, device::Error error, const BenchArguments& arguments,
             const char* doing);

// The provider, which has a device. Throws a cannot_run Failure where there is none.
device::Runtime* runtime_with_devices(const BenchArguments& arguments);

class OwnedStream {
 public:
  OwnedStream(device::Runtime* runtime, int device, const BenchArguments& arguments);
  ~OwnedStream() { runtime_->destroy_stream(stream_); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  device::Stream get() const { return stream_; }

 private:
  device::Runtime* runtime_;
  device::Stream stream_ = nullptr;
};

// Does a step as often as the arguments ask for this size, else as is usual; the seconds of one, a value a
// batch. `iterations` is raised to how many there were.
template <class Step>
std::vector<double> timed_steps(const BenchArguments& arguments, uint64_t bytes, UsualIterations usual,
                                bool simulated, int64_t* iterations, Step step) {
  Repetitions wanted = repetitions(arguments, bytes, usual);
  int64_t trials = std::min(trial_steps, wanted.warmup);
  wanted = within_budget(arguments, wanted, median(time_batches(trials, step)), simulated);
  time_batches(wanted.warmup - trials, step);
  *iterations = std::max(*iterations, wanted.timed);
  return time_batches(wanted.timed, step);
}

template <class Scale>
Distribution scaled(std::vector<double> seconds, Scale scale) {
  for (double& value : seconds) value = scale(value);
  return distribution(std::move(seconds));
}

}  // namespace fairlead::tools
