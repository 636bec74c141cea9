// SPDX-License-Identifier: Apache-2.0
//
// The collective benchmarks, and the exchange of two ranks: one call repeated over a sweep of sizes in all
// ranks. Each call is timed by itself in each rank, and a barrier that is not timed follows it, as the OSU
// micro-benchmarks do.
//
// With validation the timed run ends with a look at what the last call left, and further calls follow, each
// with new data and cleared receive buffers.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <optional>
#include <vector>

#include "bench/buffer.h"
#include "bench/mpi/collectives/collective_channel.h"
#include "bench/mpi/collectives/data.h"
#include "bench/mpi/messages/overlap.h"
#include "bench/mpi/ranks.h"
#include "bench/timing.h"

namespace fairlead::tools {
namespace {

class CollectiveRun {
 public:
  CollectiveRun(const BenchArguments& arguments, const Ranks& ranks, CollectiveChannel& channel,
                const CollectiveData& data, uint64_t largest)
      : arguments_(arguments),
        ranks_(ranks),
        channel_(channel),
        data_(data),
        outgoing_(channel.buffer(place(arguments, ranks), data.sent_bytes(largest, arguments.root))),
        incoming_(channel.buffer(place(arguments, ranks), data.received_bytes(largest, arguments.root))) {
    if (overlaps()) computation_.emplace(arguments, ranks.device);
  }

  static Place place(const BenchArguments& arguments, const Ranks& ranks) {
    return place_of(arguments.placement[ranks.rank == 0 ? 0 : 1][0]);
  }

  // The results are rank 0's.
  CollectiveMeasurement measure(uint64_t bytes, bool simulated) {
    prepare(bytes, 0);
    // A call that cannot be served fails in all ranks, here.
    double first = 0;
    ranks_.together([&] { first = timed_call(bytes); });
    Repetitions wanted = repetitions(arguments_, bytes, usual_collectives);
    int64_t trials = std::min(trial_steps, wanted.warmup);
    const double nonblocking = overlaps() ? 3 : 1;  // alone, then with as much computing
    wanted = agreed(within_budget(arguments_, wanted, nonblocking * median(timed(trials, bytes)), simulated));
    timed(wanted.warmup - trials, bytes);
    incoming_.clear(0, data_.received_bytes(bytes, arguments_.root));
    MPI_Barrier(MPI_COMM_WORLD);
    CollectiveMeasurement m{.bytes = bytes, .iterations = wanted.timed};
    first *= 1e6;
    MPI_Reduce(&first, &m.first_us, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    std::vector<double> seconds = timed(wanted.timed, bytes);
    over_ranks(seconds, &m);
    if (overlaps())
      m.overlap = measure_overlap(
          static_cast<NonblockingChannel&>(channel_), [&] { return next_call(bytes); }, *computation_,
          wanted.timed, mean(seconds), arguments_.tests);
    if (arguments_.validate) m.wrong = validate(bytes);
    return m;
  }

 private:
  bool overlaps() const { return arguments_.kind->id == Benchmark::overlap; }

  CollectiveCall next_call(uint64_t bytes) {
    root_ = arguments_.kind->exchanges() ? 1 - ranks_.rank
            : arguments_.root >= 0       ? arguments_.root
                                         : (root_ + 1) % ranks_.size;
    return {.elements = bytes / element_type(arguments_.element).bytes,
            .root = root_,
            .from = data_.sent_bytes(bytes, root_) ? outgoing_.address() : nullptr,
            .to = data_.received_bytes(bytes, root_) ? incoming_.address() : nullptr};
  }

  void perform(const CollectiveCall& call, uint64_t bytes) {
    try {
      channel_.run(call);
    } catch (const Failure& failure) {
      throw Failure(failure.code(),
                    fmt::format("{}: size {}: {}", arguments_.kind->name, bytes, failure.what()));
    }
  }

  double timed_call(uint64_t bytes) {
    CollectiveCall call = next_call(bytes);
    auto start = std::chrono::steady_clock::now();
    perform(call, bytes);
    return seconds_since(start);
  }

  // Seconds per call in this rank.
  std::vector<double> timed(int64_t calls, uint64_t bytes) {
    return batches(calls, [&](int64_t batch) {
      double inside = 0;
      for (int64_t i = 0; i < batch; ++i) {
        inside += timed_call(bytes);
        MPI_Barrier(MPI_COMM_WORLD);
      }
      return inside;
    });
  }

  // Each rank's clock differs; rank 0's counts.
  Repetitions agreed(Repetitions r) const {
    MPI_Bcast(&r.timed, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    MPI_Bcast(&r.warmup, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return r;
  }

  void over_ranks(const std::vector<double>& seconds, CollectiveMeasurement* m) const {
    std::vector<double> sums(seconds.size());
    MPI_Reduce(seconds.data(), sums.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, 0,
               MPI_COMM_WORLD);
    for (double& sum : sums) sum *= 1e6 / ranks_.size;
    double mine = mean(seconds) * 1e6;
    MPI_Reduce(&mine, &m->least_us, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &m->greatest_us, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    m->latency_us = distribution(sums);
  }

  void prepare(uint64_t bytes, int64_t iteration) {
    data_.fill(outgoing_, bytes, iteration, arguments_.root);
    incoming_.clear(0, data_.received_bytes(bytes, arguments_.root));
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Of the last call; -1: all is right.
  int64_t first_wrong(uint64_t bytes, int64_t iteration) const {
    auto wrong = data_.first_wrong(incoming_, bytes, iteration, root_);
    return wrong ? static_cast<int64_t>(*wrong) : -1;
  }

  std::optional<WrongData> validate(uint64_t bytes) {
    constexpr uint64_t large = 1 << 20;
    const int64_t iterations = bytes < large ? 10 : 3;
    int64_t mine = first_wrong(bytes, 0);
    for (int64_t i = 1; i <= iterations; ++i) {
      prepare(bytes, i);
      perform(next_call(bytes), bytes);
      int64_t wrong = first_wrong(bytes, i);
      if (mine < 0) mine = wrong;
    }
    std::vector<int64_t> all(static_cast<size_t>(ranks_.size), -1);
    MPI_Gather(&mine, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks_.size; ++rank)
      if (int64_t byte = all[static_cast<size_t>(rank)]; byte >= 0) return WrongData{rank, byte};
    return {};
  }

  const BenchArguments& arguments_;
  const Ranks& ranks_;
  CollectiveChannel& channel_;
  const CollectiveData& data_;
  Buffer &outgoing_, &incoming_;
  std::optional<Computation> computation_;
  int root_ = -1;
};

}  // namespace

int collective_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  const CollectiveData data(arguments, ranks.rank, ranks.size);
  const uint64_t element = element_type(arguments.element).bytes;
  std::unique_ptr<CollectiveChannel> channel;
  std::optional<CollectiveRun> run;
  std::optional<CollectiveReport> report;

  // All ranks have windows of the same size, the root of MPI_Bcast and the others.
  const int sharing_root = arguments.symmetric ? -1 : arguments.root;
  // What is measured, and why the other sizes are not; the same in every rank.
  std::vector<uint64_t> sizes;
  std::vector<std::string> left_out;

  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    if (provider_of(arguments) != "none") ranks.take_device(arguments);
  });
  ranks.together([&] {
    if (arguments.via == "nccl")
      channel = make_nccl_collective(arguments, ranks.device);
    else if (arguments.kind->exchanges())
      channel = make_exchange(arguments);
    else
      channel = std::make_unique<MpiCollective>(arguments);
  });
  ranks.together([&] {
    for (uint64_t bytes : arguments.sizes()) {
      uint64_t needed = data.most_bytes(bytes, sharing_root);
      std::string refusal = channel->refusal(bytes / element);
      if (needed > arguments.memory_limit) {
        left_out.push_back(fmt::format("sizes from {} on: buffers take {} bytes of a rank, -M allows {}",
                                       bytes, needed, arguments.memory_limit));
        break;
      }
      if (refusal.empty())
        sizes.push_back(bytes);
      else
        left_out.push_back(fmt::format("size {}: {}", bytes, refusal));
    }
    uint64_t largest = sizes.empty() ? 0 : sizes.back();
    std::string lacking = shortage(CollectiveRun::place(arguments, ranks),
                                   data.most_bytes(largest, sharing_root), ranks.local_size);
    if (!lacking.empty())
      throw usage(fmt::format("{}: size {}: {}; give a smaller -m", arguments.kind->name, largest, lacking));
  });
  ranks.together([&] { run.emplace(arguments, ranks, *channel, data, sizes.empty() ? 0 : sizes.back()); });
  std::string devices = fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), ","));
  ranks.open(report, arguments, channel->name(), devices);

  const bool simulated = is_simulated(arguments);
  for (uint64_t bytes : sizes) {
    CollectiveMeasurement m = run->measure(bytes, simulated);
    if (report) report->add(m);
  }
  for (const std::string& line : left_out)
    if (report) report->leave_out(line);
  return ranks.finish(report);
}

}  // namespace fairlead::tools
