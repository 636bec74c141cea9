// SPDX-License-Identifier: Apache-2.0
//
// latency, bw and bibw: one step repeated over a sweep of message sizes between ranks 0 and 1, each rank's
// buffers where the placement letters say.
//
// With validation the timed run ends with a look at what it received, and further steps follow, each with new
// data and a cleared receive buffer: only that shows that every message is this one and not the last.
//
// With --fresh both ranks allocate their buffers anew before each step and free them after it. Only the step
// is timed: what a message costs that comes from memory nobody has seen, not what allocating costs.

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "bench/buffer.h"
#include "bench/mpi/channel.h"
#include "bench/mpi/ranks.h"
#include "bench/timing.h"

namespace fairlead::tools {
namespace {

class Sweep {
 public:
  Sweep(const BenchArguments& arguments, const Ranks& ranks, Channel& channel, Place place)
      : arguments_(arguments), ranks_(ranks), channel_(channel), place_(place) {
    allocate(arguments.largest);
  }

  Measurement measure(uint64_t bytes, bool simulated) {
    prepare(bytes, 0);
    Repetitions wanted = repetitions(arguments_, bytes, latency() ? usual_messages : usual_windows);
    int64_t trials = std::min(trial_steps, wanted.warmup);
    wanted = agreed(within_budget(arguments_, wanted, mean(timed(trials, bytes)), simulated));
    timed(wanted.warmup - trials, bytes);
    incoming_->clear(0, bytes);
    MPI_Barrier(ranks_.pair);
    std::vector<double> seconds = timed(wanted.timed, bytes);
    Measurement m{.bytes = bytes, .iterations = wanted.timed};
    for (double& value : seconds) value = in_unit(bytes, value);
    (latency() ? m.latency_us : m.bandwidth_mb_s) = distribution(seconds);
    if (arguments_.validate) m.valid = validate(bytes);
    return m;
  }

 private:
  bool latency() const { return arguments_.kind->id == Benchmark::latency; }
  bool receives() const { return arguments_.kind->id != Benchmark::bandwidth || ranks_.rank == 1; }
  bool sends() const { return arguments_.kind->id != Benchmark::bandwidth || ranks_.rank == 0; }

  void allocate(uint64_t bytes) {
    outgoing_.reset();
    incoming_.reset();
    outgoing_.emplace(place_, bytes);
    incoming_.emplace(place_, bytes);
  }

  // Seconds per step.
  std::vector<double> timed(int64_t steps, uint64_t bytes) {
    auto step = [&] { run_step(bytes); };
    if (!arguments_.fresh) return time_batches(steps, step);
    std::vector<double> seconds;
    for (int64_t i = 0; i < steps; ++i) {
      allocate(bytes);
      MPI_Barrier(ranks_.pair);
      seconds.push_back(time_batches(1, step).front());
    }
    return seconds;
  }

  // Each rank's clock differs; rank 0's counts.
  Repetitions agreed(Repetitions r) const {
    MPI_Bcast(&r.timed, 1, MPI_INT64_T, 0, ranks_.pair);
    MPI_Bcast(&r.warmup, 1, MPI_INT64_T, 0, ranks_.pair);
    return r;
  }

  void run_step(uint64_t bytes) {
    void* from = sends() ? outgoing_->address() : nullptr;
    void* to = receives() ? incoming_->address() : nullptr;
    if (!latency()) {
      channel_.window(from, to, bytes, arguments_.window);
    } else if (ranks_.rank == 0) {
      channel_.send(from, bytes);
      channel_.receive(to, bytes);
    } else {
      channel_.receive(to, bytes);
      channel_.send(from, bytes);
    }
  }

  double in_unit(uint64_t bytes, double seconds) const {
    if (latency()) return seconds * 1e6 / 2;
    double directions = arguments_.kind->id == Benchmark::bidirectional ? 2 : 1;
    return double(bytes) * arguments_.window * directions / seconds / 1e6;
  }

  static uint64_t seed(uint64_t bytes, int64_t iteration, int sender) {
    return (bytes << 20) + static_cast<uint64_t>(iteration) * 2 + static_cast<uint64_t>(sender);
  }

  void prepare(uint64_t bytes, int64_t iteration) {
    if (arguments_.fresh) allocate(bytes);
    outgoing_->write_pattern(0, bytes, seed(bytes, iteration, ranks_.rank));
    incoming_->clear(0, bytes);
    MPI_Barrier(ranks_.pair);
  }

  bool arrived(uint64_t bytes, int64_t iteration) const {
    return !receives() || incoming_->holds_pattern(0, bytes, seed(bytes, iteration, 1 - ranks_.rank));
  }

  bool validate(uint64_t bytes) {
    constexpr uint64_t large = 1 << 20;
    const int64_t iterations = bytes < large ? 10 : 3;
    // Fresh buffers held nothing worth looking at.
    int right = arguments_.fresh || arrived(bytes, 0), right_everywhere = 0;
    for (int64_t i = 1; i <= iterations; ++i) {
      prepare(bytes, i);
      run_step(bytes);
      right = right && arrived(bytes, i);
    }
    MPI_Allreduce(&right, &right_everywhere, 1, MPI_INT, MPI_MIN, ranks_.pair);
    return right_everywhere;
  }

  const BenchArguments& arguments_;
  const Ranks& ranks_;
  Channel& channel_;
  Place place_;
  std::optional<Buffer> outgoing_, incoming_;
};

}  // namespace

int sweep_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  bool takes_part = ranks.rank < 2;
  Place place = place_of(arguments.placement[ranks.rank == 1][0]);
  std::unique_ptr<Channel> channel;
  std::optional<Sweep> sweep;
  std::optional<Report> report;

  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    if (!takes_part) return;
    // Without this a host-to-host run starts no GPU, as the program it stands for would not.
    if (provider_of(arguments) != "none" || arguments.needs_device()) ranks.take_device(arguments);
    std::string lacking = shortage(place, 2 * arguments.largest, std::min(ranks.local_size, 2));
    if (!lacking.empty())
      throw usage(fmt::format("{}: size {}: {}; give a smaller -m", arguments.kind->name, arguments.largest,
                              lacking));
    channel = arguments.via == "nccl" ? make_nccl_channel(ranks) : make_mpi_channel(ranks);
    sweep.emplace(arguments, ranks, *channel, place);
  });
  std::string device_of[2];
  if (takes_part) {
    int devices[2] = {};
    MPI_Allgather(&ranks.device, 1, MPI_INT, devices, 1, MPI_INT, ranks.pair);
    for (int i = 0; i < 2; ++i) device_of[i] = devices[i] < 0 ? "none" : std::to_string(devices[i]);
  }
  ranks.together([&] {
    if (ranks.rank != 0) return;
    Context context = ranks.context();
    context.via = channel->name();
    context.devices = fmt::format("{} -> {}", device_of[0], device_of[1]);
    report.emplace(arguments, context);
  });

  if (takes_part) {
    // Host-to-host runs go at full speed on any machine.
    bool simulated = arguments.needs_device() && provider_of(arguments) == "sim";
    for (uint64_t bytes : arguments.sizes()) {
      Measurement m = sweep->measure(bytes, simulated);
      if (report) report->add(m);
    }
  }
  ranks.wait_for_all();
  int code = report ? report->finish() : exit_success;
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return code;
}

}  // namespace fairlead::tools
