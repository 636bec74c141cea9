// SPDX-License-Identifier: Apache-2.0
//
// One line on stderr where figures are doubtful. On simulated GPUs all are, and nobody needs to be told.

#pragma once

#include <string>

#include "bench/distribution.h"
#include "bench/options/arguments.h"

namespace fairlead::tools {

class NoiseWatch {
 public:
  explicit NoiseWatch(const BenchArguments& arguments);

  // Of one figure; `what` names it: "64 bytes". Returns whether it is doubtful.
  bool look(const std::string& what, const Distribution& distribution, int64_t measurements);
  // The same of a figure that another process has looked at.
  void take(bool doubtful, const std::string& what);

  void warn() const;

  // Why nothing follows from the figures: simulated GPUs, or more than a tenth of them doubtful; empty where
  // something does.
  std::string why_no_advice() const;

 private:
  std::string command_;
  bool simulated_, has_ranks_;
  int figures_ = 0, doubtful_ = 0;
  std::string first_;  // of the doubtful ones
};

// Runs on simulated GPUs; those on host memory go at full speed on any machine.
bool is_simulated(const BenchArguments& arguments);

}  // namespace fairlead::tools
