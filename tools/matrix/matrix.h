// SPDX-License-Identifier: Apache-2.0
//
// `fairlead matrix`: measures each pair of GPUs of this machine in several ways, and recommends an order of
// GPUs for neighbouring ranks.

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/options/arguments.h"
#include "bench/report.h"
#include "matrix/placement.h"
#include "run/topology.h"

namespace fairlead::tools::matrix {

using Json = nlohmann::ordered_json;

// From one GPU to another; empty where it could not be measured.
struct PairValues {
  std::optional<Distribution> latency_us, one_way_mb_s, both_ways_mb_s;
  bool valid = true;
};

// What moves the bytes: a value of the option --way, and of "way" in the JSON (schema 1).
struct Way {
  std::string name;   // of --way
  std::string title;  // "messages with Fairlead on Open MPI v4.1.4"
  Grid<PairValues> pairs;
  std::string why_not;  // why it was not measured; "" where it was
  std::string latency_by,
      bandwidth_by;  // what carries copies of that size: "SDMA"; "" where the title says it
};

// In ranks, one on each GPU. `about` is what the ranks' report says of itself.
Way measure_messages(const BenchArguments& arguments, const std::string& name, size_t gpus, Json* about);
// In this process, by the driver's copies ("engine") or by kernels ("kernel").
Way measure_copies(const BenchArguments& arguments, const std::string& name, size_t gpus);
// The driver's copies in another process, which reads the variables of the driver anew.
Way measure_copies_elsewhere(const BenchArguments& arguments, const std::string& name, size_t gpus);

// Variables of AMD's driver that decide whether it copies by SDMA or by a kernel: recorded with what was
// measured.
inline constexpr const char* sdma_settings[] = {"HSA_ENABLE_SDMA", "HSA_ENABLE_PEER_SDMA"};

struct Findings {
  std::vector<GpuPlace> gpus;
  std::vector<std::string> names, numa;
  Grid<std::string> links;  // as nvidia-smi and rocm-smi write them; "" where they do not tell
  std::vector<Way> ways;
  Advice advice;
};

void print(const BenchArguments& arguments, const Findings& findings, bool writes_map);
Json to_json(const BenchArguments& arguments, const Context& context, const Findings& findings);
void write_map(const BenchArguments& arguments, const Findings& findings);

}  // namespace fairlead::tools::matrix
