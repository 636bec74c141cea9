// SPDX-License-Identifier: Apache-2.0
//
// Nonblocking communication with computation between its start and its wait: what of its time that hides.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "bench/buffer.h"
#include "bench/device_copy.h"
#include "bench/mpi/collectives/collective_channel.h"
#include "bench/mpi/collectives/report.h"

namespace fairlead::tools {

// Computes for about a given time: the CPU, the GPU, or both at once.
class Computation {
 public:
  // `device` is this rank's; it counts only if the GPU computes. Finds out how long arithmetic takes here.
  Computation(const BenchArguments& arguments, int device);

  // Each time computes for about `seconds`, the CPU in so many parts.
  void plan(double seconds, int parts);
  void start();   // launches what the GPU computes
  void part();    // computes one part on the CPU
  void finish();  // returns when the GPU is done

 private:
  // How long a number of rounds of arithmetic takes.
  struct Pace {
    double fixed_s = 0, round_s = 0;
    int64_t rounds(double seconds) const;
  };
  template <class Compute>
  static Pace pace_of(const Compute& compute);
  struct Gpu {
    Gpu(const BenchArguments& arguments, int device);
    void launch(int64_t rounds);
    void wait();
    const BenchArguments& arguments;
    device::Runtime* runtime;
    OwnedStream stream;  // waits for no other one, as those of an application do that overlaps
    Buffer kept;
    device::Kernel kernel = nullptr;
  };

  std::optional<Gpu> gpu_;
  std::optional<Pace> on_cpu_;
  Pace on_gpu_;
  int64_t cpu_rounds_ = 0, gpu_rounds_ = 0;
};

// The mean of `iterations` calls, over all ranks, in rank 0; each computes for about `compute_s` and calls
// the channel's test() `tests` times meanwhile. Collective.
Overlap measure_overlap(NonblockingChannel& channel, const std::function<CollectiveCall()>& next_call,
                        Computation& computation, int64_t iterations, double compute_s, int tests);

}  // namespace fairlead::tools
