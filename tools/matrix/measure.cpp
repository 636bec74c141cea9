// SPDX-License-Identifier: Apache-2.0
//
// The measurements: messages by `fairlead bench all_pairs` in ranks of their own, copies in this process. As
// in Fairlead's own transport, the receiver gets the bytes: the stream and the kernel belong to its device.

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "bench/buffer.h"
#include "bench/device_copy.h"
#include "common/places.h"
#include "common/process.h"
#include "kernels/reduce.h"
#include "matrix/matrix.h"

namespace fairlead::tools::matrix {
namespace {

using device::Error;
using device::Runtime;

Distribution read_distribution(const Json& json) {
  auto of = [&](const char* key) { return json[key].get<double>(); };
  Distribution d{of("mean"), of("min"), of("p1"), of("p25"), of("p50"), of("p75"), of("p99"), of("max")};
  for (const Json& batch : json["batches"])
    if (d.batches < Distribution::most_batches) d.batch[d.batches++] = batch.get<double>();
  return d;
}

uint64_t kibibytes(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return 1024 * (text ? std::strtoull(text, nullptr, 10) : otherwise);
}

bool is_zero(const char* variable) {
  const char* text = std::getenv(variable);
  return text && std::string_view(text) == "0";
}

// What carries the driver's copy of so many bytes between two GPUs of a process: AMD's takes SDMA beyond a
// size, unless it is forbidden (clr: KernelBlitManager::copyBuffer; ROCr: GpuAgent::GetBlitObject).
std::string carrier_of(const std::string& provider, uint64_t bytes) {
  if (provider != "rocm") return "copy engine";
  const uint64_t up_to =
      std::max(kibibytes("ROC_P2P_SDMA_SIZE", 1024), kibibytes("GPU_FORCE_BLIT_COPY_SIZE", 16));
  const bool forbidden = std::any_of(std::begin(sdma_settings), std::end(sdma_settings), is_zero);
  return forbidden || bytes <= up_to ? "blit kernel" : "SDMA";
}

// Of what a process measured that reports in JSON, whose rows these are.
void read_pairs(const Json& rows, Way* way) {
  for (const Json& row : rows) {
    PairValues& values = way->pairs.at(row["from"].get<size_t>(), row["to"].get<size_t>());
    values.latency_us = read_distribution(row["latency_us"]);
    values.one_way_mb_s = read_distribution(row["bandwidth_mb_s"]);
    values.both_ways_mb_s = read_distribution(row["both_ways_mb_s"]);
    values.valid = row.value("valid", true);
  }
}

// The report of this tool as another process, with the words that ask for the same measurements.
Json report_of(const BenchArguments& arguments, const std::string& name, Words command) {
  auto add = [&](const Words& words) { command.insert(command.end(), words.begin(), words.end()); };
  add({"--json", "-", "-m", fmt::format("{}:{}", arguments.smallest, arguments.largest), "-W",
       std::to_string(arguments.window)});
  if (arguments.iterations >= 0) add({"-i", std::to_string(arguments.iterations)});
  if (arguments.warmup >= 0) add({"-x", std::to_string(arguments.warmup)});
  if (!arguments.device.empty()) add({"-d", arguments.device});
  if (arguments.validate) add({"-c"});
  std::vector<std::pair<std::string, std::string>> variables;
  if (name.ends_with("-blit")) variables.emplace_back("HSA_ENABLE_SDMA", "0");
  const Captured captured = capture(command, Stderr::pass, variables);
  Json report = Json::parse(captured.output, nullptr, false);
  const bool wrong_bytes = captured.status == exit_problem && !report.is_discarded();
  if ((captured.status != 0 && !wrong_bytes) || report.is_discarded())
    throw Failure(
        captured.status == exit_cannot_run ? exit_cannot_run : exit_problem,
        fmt::format("this run failed with exit code {}: {}; see `fairlead doctor`, or leave messages out by "
                    "--way engine --way kernel",
                    captured.status, shell_line(command)));
  return report;
}

// What one device sends and receives.
struct End {
  End(const BenchArguments& arguments, Runtime* runtime, int device)
      : device(device),
        stream(runtime, device, arguments),
        out(on(device), arguments.largest),
        in(Place::device, arguments.largest) {
    device::DeviceInfo info{};
    require(runtime, runtime->device_info(device, &info), arguments, "cannot ask a device what it is");
    blocks = static_cast<unsigned>(std::max(info.multiprocessors, 16));
  }

  static Place on(int device) {
    fairlead_device_set(device);
    return Place::device;
  }

  int device;
  OwnedStream stream;
  Buffer out, in;
  unsigned blocks;
};

class Copies {
 public:
  Copies(const BenchArguments& arguments, Runtime* runtime, bool by_kernel)
      : arguments_(arguments),
        runtime_(runtime),
        by_kernel_(by_kernel),
        simulated_(std::strcmp(runtime->name(), "sim") == 0) {}

  void measure(int low, int high, Grid<PairValues>* pairs) {
    bool reachable = true;  // by a kernel; the driver's copy goes another way where it is not
    for (auto [device, peer] : {std::pair(low, high), std::pair(high, low)})
      reachable = runtime_->enable_peer(device, peer) == Error::none && reachable;
    if (by_kernel_ && !reachable) return;
    End a(arguments_, runtime_, low), b(arguments_, runtime_, high);
    PairValues& there = pairs->at(size_t(low), size_t(high));
    PairValues& back = pairs->at(size_t(high), size_t(low));
    one_way(a, b, &there);
    one_way(b, a, &back);
    fill(a, 3);
    fill(b, 4);
    there.both_ways_mb_s = bandwidth(2, [&] {
      for (int i = 0; i < arguments_.window; ++i)
        start(a, b, arguments_.largest), start(b, a, arguments_.largest);
      wait(a);
      wait(b);
    });
    back.both_ways_mb_s = there.both_ways_mb_s;
    check(b, 3, &there);
    check(a, 4, &back);
  }

 private:
  void one_way(End& from, End& to, PairValues* values) {
    const uint64_t small = arguments_.smallest;
    fill(from, 1);
    to.in.clear(0, arguments_.largest);
    values->latency_us = scaled(timed(small, usual_messages,
                                      [&] {
                                        start(from, to, small);
                                        wait(to);
                                      }),
                                [](double s) { return s * 1e6; });
    fill(from, 2);
    to.in.clear(0, arguments_.largest);
    values->one_way_mb_s = bandwidth(1, [&] {
      for (int i = 0; i < arguments_.window; ++i) start(from, to, arguments_.largest);
      wait(to);
    });
    check(to, 2, values);
  }

  template <class Step>
  std::vector<double> timed(uint64_t bytes, UsualIterations usual, Step step) {
    int64_t iterations = 0;
    return timed_steps(arguments_, bytes, usual, simulated_, &iterations, step);
  }

  template <class Step>
  Distribution bandwidth(int directions, Step step) {
    double bytes = double(arguments_.largest) * arguments_.window * directions;
    return scaled(timed(arguments_.largest, usual_windows, step), [=](double s) { return bytes / s / 1e6; });
  }

  void start(End& from, End& to, uint64_t bytes) {
    device::CopyItem item{to.in.address(), from.out.address(), bytes};
    Error error = by_kernel_ ? kernels::launch_copies(to.device, to.stream.get(), &item, 1, to.blocks, {})
                             : runtime_->copy(item.to, item.from, bytes, to.stream.get());
    require(runtime_, error, arguments_, "cannot copy");
  }
  void wait(End& end) {
    require(runtime_, runtime_->synchronize_stream(end.stream.get()), arguments_, "cannot wait for a copy");
  }

  void fill(End& end, uint64_t seed) {
    if (arguments_.validate) end.out.write_pattern(0, arguments_.largest, seed);
  }
  void check(End& end, uint64_t seed, PairValues* values) {
    if (arguments_.validate)
      values->valid = values->valid && end.in.holds_pattern(0, arguments_.largest, seed);
  }

  const BenchArguments& arguments_;
  Runtime* runtime_;
  bool by_kernel_, simulated_;
};

}  // namespace

Way measure_messages(const BenchArguments& arguments, const std::string& name, size_t gpus, Json* about) {
  Way way{name, "", Grid<PairValues>(gpus), "", "", ""};
  if (bench_abis().empty()) {
    way.why_not = "this Fairlead was built without an MPI";
    return way;
  }
  Words command = {own_path(), "bench", "all_pairs", "-n", std::to_string(gpus)};
  if (!arguments.mpi.empty()) command.insert(command.end(), {"--mpi", arguments.mpi});
  if (!arguments.preload) command.push_back("--no-preload");
  *about = report_of(arguments, name, command);
  way.title = fmt::format("messages{}, {} on {}", name == "mpi" ? "" : " by blit kernels",
                          (*about)["preloaded"].get<bool>() ? "Fairlead" : "no Fairlead",
                          (*about)["mpi"]["library"].get<std::string>());
  read_pairs((*about)["results"], &way);
  return way;
}

Way measure_copies_elsewhere(const BenchArguments& arguments, const std::string& name, size_t gpus) {
  const Json report = report_of(arguments, name, {own_path(), "matrix", "--way", "engine"});
  const Json& told = report["ways"][0];
  Way way{name,
          "driver's copy",
          Grid<PairValues>(gpus),
          told.value("why_not", ""),
          told["latency_by"],
          told["bandwidth_by"]};
  read_pairs(report["results"], &way);
  return way;
}

Way measure_copies(const BenchArguments& arguments, const std::string& name, size_t gpus) {
  Runtime* runtime = runtime_with_devices(arguments);
  const bool by_kernel = name == "kernel";
  const std::string provider = runtime->name();
  Way way{name, "driver's copy", Grid<PairValues>(gpus), "", "", ""};
  if (by_kernel)
    way.title = provider == "rocm" ? "kernel on compute units" : "kernel on SMs";
  else
    way.latency_by = carrier_of(provider, arguments.smallest),
    way.bandwidth_by = carrier_of(provider, arguments.largest);
  // Each GPU loads the kernel here: not while it has work, which waits for that.
  for (size_t device = 0; by_kernel && device < gpus; ++device)
    if (!kernels::copies_available(static_cast<int>(device))) {
      way.why_not = "this build has no device code for these GPUs";
      return way;
    }
  fairlead_device_set(0);
  if (std::string lacking = shortage(Place::device, 2 * arguments.largest, 2); !lacking.empty())
    throw usage(fmt::format("size {}: {}; give a smaller -m", arguments.largest, lacking));
  Copies copies(arguments, runtime, by_kernel);
  for (size_t low = 0; low < gpus; ++low)
    for (size_t high = low + 1; high < gpus; ++high) copies.measure(int(low), int(high), &way.pairs);
  return way;
}

}  // namespace fairlead::tools::matrix
