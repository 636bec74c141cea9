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
    : command_(command_of(*arguments.kind)), simulated_(is_simulated(arguments)) {}

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
  if (simulated_) return "the GPUs are simulated, and their times mean nothing";
  if (doubtful_ * 10 > figures_) return fmt::format("{} of {} figures are doubtful", doubtful_, figures_);
  return {};
}

void NoiseWatch::warn() const {
  if (doubtful_ == 0) return;
  // Nobody is told to do what they have done.
  const char* bind =
      bound_cpus() == closest_cpus("") ? " bind ranks to cores (fairlead run --bind-cores)," : "";
  std::string line = fmt::format(
      "{}: {} of {} figures are doubtful, their iterations differ much (the first: {}); let nothing else run "
      "here,{} or "
      "measure longer (-i)\n",
      command_, doubtful_, figures_, first_, bind);
  std::cout.flush();
  std::fputs(line.c_str(), stderr);
}

}  // namespace fairlead::tools
