// SPDX-License-Identifier: Apache-2.0
//
// A check is a row: its key, what it examines, when it applies, the remedy, and the function that determines
// the fact. Each area has a table of checks in a file of its own. A function that cannot determine its fact
// returns `skip`; none guesses.

#pragma once

#include <string>
#include <vector>

#include "doctor/machine.h"
#include "run/nic/adapters.h"

namespace fairlead::tools::doctor {

enum class Verdict { ok, warn, fail, skip };
const char* to_string(Verdict verdict);

struct Finding {
  Verdict verdict = Verdict::skip;
  std::string fact;    // one sentence of what was found, exact
  std::string remedy;  // what to do about it; "" where nothing is to be done
  std::vector<std::string> details;
};

inline Finding ok(std::string fact, std::vector<std::string> details = {}) {
  return {Verdict::ok, std::move(fact), "", std::move(details)};
}
inline Finding warn(std::string fact, std::string remedy, std::vector<std::string> details = {}) {
  return {Verdict::warn, std::move(fact), std::move(remedy), std::move(details)};
}
inline Finding fail(std::string fact, std::string remedy, std::vector<std::string> details = {}) {
  return {Verdict::fail, std::move(fact), std::move(remedy), std::move(details)};
}
inline Finding skip(std::string why, std::string remedy = {}) {
  return {Verdict::skip, std::move(why), std::move(remedy), {}};
}

// The network adapters that are nearest to a GPU.
struct GpuAdapters {
  int gpu;
  NearAdapters near;
};
std::vector<GpuAdapters> adapters_of_gpus(const Machine& machine);

struct Check {
  const char* key;
  const char* what;    // "who starts it", as a line of the documentation
  const char* when;    // "NVIDIA GPUs"; "" where it always applies
  const char* remedy;  // for the documentation: what is to be done, in general
  bool (*applies)(const Machine&);
  Finding (*find)(const Machine&);
};

struct Area {
  const char* name;
  std::vector<Check> checks;
};

inline bool always(const Machine&) {
  return true;
}
inline bool has_nvidia(const Machine& machine) {
  return machine.gpus.vendor == Vendor::nvidia;
}
inline bool has_amd(const Machine& machine) {
  return machine.gpus.vendor == Vendor::amd;
}
inline bool has_gpu(const Machine& machine) {
  return machine.gpus.vendor != Vendor::none;
}
inline bool has_list(const Machine& machine) {  // a GPU that the vendor's tool describes
  return !machine.gpus.list.empty();
}

// Why the ranks got simulated GPUs, which nobody had asked for, where something speaks for real ones; else
// "".
std::string why_simulated(const Machine& machine);

std::vector<Check> mpi_checks();
std::vector<Check> transport_checks();
std::vector<Check> gpu_checks();  // with those for AMD's
std::vector<Check> amd_checks();
std::vector<Check> coherent_checks();
std::vector<Check> link_checks();
std::vector<Check> limit_checks();
std::vector<Check> environment_checks();
std::vector<Check> live_checks();

}  // namespace fairlead::tools::doctor
