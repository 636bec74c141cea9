// SPDX-License-Identifier: Apache-2.0
//
// The live checks: two ranks of the MPI run the probe of its ABI (probe/), with Fairlead or without, and
// doctor keeps each line that they print. If a rank crashes, the lines of all steps before it remain.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/words.h"

namespace fairlead::tools::doctor {

struct Mpi;
class System;

// One step of the probe: how it went in a rank.
struct Step {
  bool good = false;
  std::string fact;
};

struct LiveReport {
  std::string why_not;  // why nothing was started; "" where it was
  Words command;
  int simulated = 1;  // GPUs, if any are
  int status = -1;
  bool timed_out = false;
  std::string output;                                // all but the probe's own lines
  std::map<int, std::map<std::string, Step>> ranks;  // rank -> step -> what it found
  std::string library;                               // the MPI that the ranks loaded
  std::string paths;                                 // Fairlead's own list of them, "0->1 peer, 1->0 peer"
  // Fairlead's own lines on messages between nodes, of two ranks that it takes for two nodes.
  Words between_nodes;

  bool started() const { return why_not.empty(); }
  bool both(const std::string& step) const;  // was it reported by both ranks, and good in both?
  bool seen(const std::string& step) const;  // by any
  std::string fact(const std::string& step, int rank) const;
};

struct LiveRequest {
  bool wanted = true;
  bool preload = true;
  int sim = 0;  // simulated GPUs; 0: what there is
};

// Starts the ranks and waits for them, at most half a minute.
LiveReport try_ranks(const System& system, const Mpi& mpi, const LiveRequest& request);

}  // namespace fairlead::tools::doctor
