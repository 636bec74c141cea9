// SPDX-License-Identifier: Apache-2.0

#include "bench/noise.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "bench/machine.h"
#include "bench/report.h"

namespace fairlead::tools {

bool is_simulated(const BenchArguments& arguments) {
  return arguments.needs_device() && provider_of(arguments) == "sim";
}

NoiseWatch::NoiseWatch(const BenchArguments& arguments)
    : command_(command_of(*arguments.kind)),
      simulated_(is_simulated(arguments)),
      has_ranks_(arguments.kind->uses_mpi) {}

bool NoiseWatch::look(const std::string& what, const Distribution& d, int64_t measurements) {
  bool doubtful = !simulated_ && noisy(d, measurements);
  take(doubtful, fmt::format("{}, p25 {:.2f}, p50 {:.2f}, p75 {:.2f}", what, d.p25, d.p50, d.p75));
  return doubtful;
}

void NoiseWatch::take(bool doubtful, const std::string& what) {
  ++figures_;
  if (!doubtful) return;
  if (doubtful_++ == 0) first_ = what;
}

std::string NoiseWatch::why_no_advice() const {
  if (simulated_) return "the GPUs are simulated, and their timings are not valid";
  if (doubtful_ * 10 > figures_)
    return figures_ == 1 ? "the only result is doubtful"
                         : fmt::format("{} of {} results are doubtful", doubtful_, figures_);
  return {};
}

void NoiseWatch::warn() const {
  if (doubtful_ == 0) return;
  // Nobody is told to do what they have done.
  const char* bind =
      has_ranks_ && bound_cpus() == closest_cpus("") ? " bind ranks to cores (--bind-cores)," : "";
  const std::string what =
      figures_ == 1
          ? fmt::format("the only result is doubtful: its iterations differ widely ({})", first_)
          : fmt::format("{} of {} results are doubtful: their iterations differ widely (the first: {})",
                        doubtful_, figures_, first_);
  std::string line = fmt::format("{}: {}; run nothing else on this machine,{} or measure longer (-i)\n",
                                 command_, what, bind);
  std::cout.flush();
  std::fputs(line.c_str(), stderr);
}

}  // namespace fairlead::tools
