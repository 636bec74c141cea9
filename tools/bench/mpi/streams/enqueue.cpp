// SPDX-License-Identifier: Apache-2.0
//
// enqueue and enqueue_*: a chain of steps on a GPU stream, each a kernel, an operation, a kernel. A time
// is that of a chain in the slowest rank, by its steps.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/mpi/streams/enqueue_stream.h"
#include "bench/mpi/streams/stream_operation.h"

namespace fairlead::tools {
namespace {

// While the stream is held. Drivers have queues of some 1000 commands, and a full one makes callers wait.
constexpr int64_t most_held_steps = 50;

// Times of a step, in us, over the chains.
struct EnqueueColumn {
  std::string key, heading;
  Distribution times;
};
struct EnqueueResult {
  uint64_t bytes = 0;
  int64_t steps = 0;
  std::vector<EnqueueColumn> columns = {};
  std::optional<bool> valid = {};
};
constexpr int enqueue_width = 13;

class EnqueueReport : public Report {
 public:
  EnqueueReport(const BenchArguments& arguments, const Context& context) : Report(arguments, context) {
    json()["rounds"] = arguments.rounds;
  }

  // Before the first result.
  void explain(const std::string& no_nccl) {
    json()["without_nccl"] = no_nccl;
    if (!table()) return;
    if (!no_nccl.empty()) std::cout << fmt::format("# NCCL is skipped: {}\n", no_nccl);
    std::cout << fmt::format("# times of a step in us; medians over {} chains\n", arguments_.rounds);
  }

  void add(const EnqueueResult& result) {
    nlohmann::ordered_json row = {{"bytes", result.bytes}, {"steps", result.steps}};
    std::string heading = fmt::format("{:<{}}", "# Size", narrow_size_width);
    std::string line = fmt::format("{:<{}}", result.bytes, narrow_size_width);
    bool doubtful = false;
    for (const EnqueueColumn& column : result.columns) {
      row[column.key] = to_json(column.times);
      heading += fmt::format("{:>{}}", column.heading, enqueue_width);
      line += fmt::format("{:>{}.2f}", column.times.p50, enqueue_width);
      doubtful |= noise_.look(fmt::format("{} {} bytes", column.heading, result.bytes), column.times,
                              arguments_.rounds);
    }
    if (result.valid) {
      heading += fmt::format("{:>{}}", "Valid", enqueue_width);
      line += fmt::format("{:>{}}", *result.valid ? "Pass" : "Fail", enqueue_width);
    }
    add_row(std::move(row), result.valid, doubtful);
    if (!table()) return;
    if (!std::exchange(has_heading_, true)) std::cout << heading << '\n';
    std::cout << line << std::endl;
  }

 private:
  bool has_heading_ = false;
};

// Of one size.
class Chain {
 public:
  Chain(const BenchArguments& arguments, const Ranks& ranks, EnqueueStream& stream, MPI_Comm comm,
        uint64_t bytes)
      : arguments_(arguments),
        stream_(stream),
        bytes_(bytes),
        operation_(make_stream_operation(arguments, ranks, bytes, comm)),
        count_(stream.kernel(operation_->counts())),
        add_(stream.kernel(operation_->adds())) {}

  EnqueueResult measure(NcclRanks* nccl) {
    plan();
    EnqueueResult result{.bytes = bytes_, .steps = wanted_.timed};
    auto add = [&result](const std::string& key, const std::string& heading, const Distribution& times) {
      result.columns.push_back({key, heading, times});
    };
    add("sync_us", "Sync", timed([this](int64_t steps) { block(steps); }));
    for (const StreamOperation::Way& way : operation_->ways()) {
      const auto step = [&] { way.enqueue(stream_.comm()); };
      add(way.key + "_us", way.heading, timed([&](int64_t steps) { enqueue(steps, step); }));
      if (!stream_.captures()) continue;
      if (way.key == "enqueue")
        add("graph_us", "Graph", in_graph(step));
      else
        add(way.key + "_graph_us", "+Graph", in_graph(step));
    }
    add("call_us", "Call", distribution(calls(operation_->ways().front())));
    if (nccl) add("nccl_us", "NCCL", timed([this, nccl](int64_t steps) { by_nccl(steps, *nccl); }));
    if (arguments_.validate) result.valid = valid_;
    return result;
  }

 private:
  // Steps of a chain, and of the one that precedes those of each way, the same in all ranks.
  void plan() {
    wanted_ = repetitions(arguments_, bytes_, {usual_steps, usual_steps});
    operation_->begin();
    (void)seconds_of(1, [this](int64_t steps) { block(steps); });
    const double seconds = seconds_of(trial_steps, [this](int64_t steps) { block(steps); });
    wanted_ = within_budget(arguments_, wanted_, seconds / trial_steps, is_simulated(arguments_));
  }

  template <class Steps>
  double seconds_of(int64_t steps, Steps run) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = std::chrono::steady_clock::now();
    run(steps);
    stream_.synchronize();
    return slowest(seconds_since(start));
  }

  static double slowest(double mine) {
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
  }

  template <class Steps>
  Distribution timed(Steps run) {
    run(wanted_.warmup);
    stream_.synchronize();
    std::vector<double> us;
    for (int chain = 0; chain < arguments_.rounds; ++chain) {
      operation_->begin();
      us.push_back(seconds_of(wanted_.timed, run) * 1e6 / static_cast<double>(wanted_.timed));
      check(wanted_.timed);
    }
    return distribution(us);
  }

  void check(int64_t steps) {
    if (!arguments_.validate) return;
    int mine = operation_->right(steps), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    valid_ = valid_ && all;
  }

  void count() { stream_.launch(count_, operation_->sent(), operation_->sum()); }
  void add() { stream_.launch(add_, operation_->received(), operation_->sum()); }

  void block(int64_t steps) {
    for (int64_t step = 0; step < steps; ++step) {
      count();
      stream_.synchronize();
      operation_->block();
      add();
    }
  }

  template <class Operation>
  void enqueue(int64_t steps, const Operation& operation) {
    for (int64_t step = 0; step < steps; ++step) {
      count();
      operation();
      add();
    }
  }

  void by_nccl(int64_t steps, NcclRanks& nccl) {
    for (int64_t step = 0; step < steps; ++step) {
      count();
      operation_->by_nccl(nccl, stream_.native());
      add();
    }
  }

  template <class Operation>
  Distribution in_graph(const Operation& operation) {
    stream_.begin_capture();
    enqueue(1, operation);
    const device::Graph graph = stream_.end_capture();
    const Distribution times = timed([&](int64_t steps) {
      for (int64_t step = 0; step < steps; ++step) stream_.launch(graph);
    });
    stream_.destroy(graph);
    return times;
  }

  // The stream does nothing meanwhile: a call that waited for it would not return.
  std::vector<double> calls(const StreamOperation::Way& way) {
    const int64_t steps = std::min(wanted_.timed, most_held_steps);
    std::vector<double> us;
    for (int chain = 0; chain < arguments_.rounds; ++chain) {
      operation_->begin();
      MPI_Barrier(MPI_COMM_WORLD);
      stream_.hold();
      double seconds = 0;
      for (int64_t step = 0; step < steps; ++step) {
        count();
        const auto start = std::chrono::steady_clock::now();
        way.enqueue(stream_.comm());
        seconds += seconds_since(start);
        add();
      }
      stream_.release();
      stream_.synchronize();
      us.push_back(slowest(seconds) * 1e6 / static_cast<double>(steps));
      check(steps);
    }
    return us;
  }

  const BenchArguments& arguments_;
  EnqueueStream& stream_;
  uint64_t bytes_;
  std::unique_ptr<StreamOperation> operation_;
  device::Kernel count_, add_;
  Repetitions wanted_;
  bool valid_ = true;
};

// Where all ranks have it; else why not. Collective.
std::string find_nccl(std::optional<NcclRanks>& nccl) {
  std::string why;
  try {
    nccl.emplace(MPI_COMM_WORLD);
  } catch (const Failure& failure) {
    why = failure.what();
  }
  int mine = why.empty(), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all) return "";
  nccl.reset();
  const std::string option = "--via nccl: ";
  if (why.rfind(option, 0) == 0) why.erase(0, option.size());
  return why.empty() ? "another rank has none" : why;
}

}  // namespace

int enqueue_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  std::optional<EnqueueStream> stream;
  std::optional<NcclRanks> nccl;
  std::optional<EnqueueReport> report;
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    ranks.take_device(arguments);
    const uint64_t blocks = arguments.kind->id == Benchmark::enqueue_alltoallv
                                ? static_cast<uint64_t>(ranks.size - 1)
                            : arguments.kind->id == Benchmark::enqueue_neighbors ? 2
                                                                                 : 1;
    if (blocks * arguments.largest > INT32_MAX)
      throw usage(
          fmt::format("-m: {} blocks of {} bytes are not accepted; accepted: up to {} bytes together, "
                      "what an MPI count holds",
                      blocks, arguments.largest, INT32_MAX));
    if (std::string lacking = shortage(Place::device, 2 * blocks * arguments.largest, ranks.local_size);
        !lacking.empty())
      throw usage(fmt::format("{}: size {}: {}; give a smaller -m", arguments.kind->name, arguments.largest,
                              lacking));
  });
  ranks.together([&] { EnqueueStream::require_here(arguments, ranks.device); });
  // A ring for neighbours.
  MPI_Comm comm = MPI_COMM_WORLD;
  constexpr int periodic = 1;
  if (arguments.kind->id == Benchmark::enqueue_neighbors)
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks.size, &periodic, 0, &comm);
  stream.emplace(arguments, ranks.device, comm);
  const std::string no_nccl = find_nccl(nccl);
  ranks.open(report, arguments, "MPI", fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), " <-> ")));
  if (report) report->explain(no_nccl);
  for (uint64_t bytes : arguments.sizes()) {
    const EnqueueResult result =
        Chain(arguments, ranks, *stream, comm, bytes).measure(nccl ? &*nccl : nullptr);
    if (report) report->add(result);
  }
  stream.reset();
  if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
  return ranks.finish(report);
}

}  // namespace fairlead::tools
