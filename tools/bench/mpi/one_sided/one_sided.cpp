// SPDX-License-Identifier: Apache-2.0
//
// The one-sided benchmarks over a range of sizes: rank 0 accesses the window of rank 1, or each that of the
// other; of more ranks, each of the first half that of one of the second, all at once, with a window for each
// pair. With passive targets rank 1 of a pair waits in a barrier meanwhile. With active ones latency is half
// of a step in which each rank is the origin once, as in the OSU benchmarks.
//
// With validation the timed run ends with a look at origin and window, and further steps follow, each with
// new data.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/mpi/one_sided/accesses.h"
#include "bench/mpi/one_sided/epochs.h"
#include "bench/mpi/one_sided/window.h"
#include "bench/mpi/repeat.h"
#include "bench/mpi/yardstick.h"

namespace fairlead::tools {
namespace {

int accesses_of_step(const BenchArguments& arguments) {
  return arguments.kind->one_message() ? 1 : arguments.window;
}

// All that a step accesses, at most.
uint64_t most_bytes(const BenchArguments& arguments) {
  return arguments.largest * static_cast<uint64_t>(accesses_of_step(arguments));
}

class OneSided {
 public:
  OneSided(const BenchArguments& arguments, int pairs, MPI_Comm pair, Accesses& accesses, OwnedWindow& window)
      : arguments_(arguments),
        pairs_(pairs),
        pair_(pair),
        sync_(sync_named(arguments.sync)),
        accesses_(accesses),
        window_(window) {
    MPI_Comm_rank(pair, &rank_);
    epochs_.emplace(sync_, window.get(), pair, std::vector{partner()});
  }

  Measurement measure(uint64_t bytes) {
    Measurement m{.bytes = bytes};
    fill(bytes, 0);
    epochs_->open(is_origin());
    const bool latency = arguments_.kind->one_message();
    m.iterations = warm_up(arguments_, MPI_COMM_WORLD, bytes, latency ? usual_messages : usual_windows,
                           [&](int64_t steps) { return timed(steps, bytes); });
    MPI_Barrier(MPI_COMM_WORLD);
    (latency ? m.latency_us : m.bandwidth_mb_s) = in_unit(bytes, over_pairs(timed(m.iterations, bytes)));
    close();
    if (arguments_.validate) m.valid = validate(bytes);
    return m;
  }

 private:
  int partner() const { return 1 - rank_; }
  bool both_ways() const { return arguments_.kind->id == Benchmark::access_both_ways; }
  bool by_turns() const { return arguments_.kind->one_message() && is_active(sync_); }
  bool is_origin() const { return rank_ == 0 || both_ways() || by_turns(); }
  bool is_target() const { return rank_ == 1 || both_ways() || by_turns(); }

  Filling filling(uint64_t bytes, int64_t iteration) const {
    return {bytes * static_cast<uint64_t>(accesses_of_step(arguments_)), iteration, rank_, partner()};
  }

  void fill(uint64_t bytes, int64_t iteration) {
    accesses_.fill_origin(filling(bytes, iteration));
    epochs_->at_home([&] { accesses_.fill_window(filling(bytes, iteration), window_.memory()); });
    steps_ = 0;
    MPI_Barrier(pair_);
  }

  // Then all have ended.
  void close() {
    epochs_->close(is_origin());
    MPI_Barrier(pair_);
  }

  void step(uint64_t bytes) {
    ++steps_;
    auto start_all = [&] {
      for (int i = 0; i < accesses_of_step(arguments_); ++i) {
        const uint64_t at = static_cast<uint64_t>(i) * bytes;
        accesses_.start({window_.get(), partner(), window_.displacement(partner(), at), at, bytes});
      }
    };
    if (both_ways()) {
      epochs_->exchange(start_all);
      return;
    }
    if (rank_ == 0) epochs_->access(start_all);
    if (rank_ == 1 || by_turns()) epochs_->expose();
    if (rank_ == 1 && by_turns()) epochs_->access(start_all);
  }

  std::vector<double> timed(int64_t steps, uint64_t bytes) {
    return time_batches(steps, [&] { step(bytes); });
  }

  // By the clocks of the first half, in the first rank.
  std::vector<double> over_pairs(std::vector<double> seconds) const {
    if (pairs_ == 1) return seconds;
    if (rank_ == 1) std::fill(seconds.begin(), seconds.end(), 0);
    return means_over(pairs_, seconds, MPI_COMM_WORLD);
  }

  Distribution in_unit(uint64_t bytes, std::vector<double> seconds) const {
    const double of_step = double(bytes) * arguments_.window * (both_ways() ? 2 : 1) * pairs_;
    return scaled(std::move(seconds), [&](double s) {
      return arguments_.kind->one_message() ? s * 1e6 / (by_turns() ? 2 : 1) : of_step / s / 1e6;
    });
  }

  bool arrived(uint64_t bytes, int64_t iteration) {
    const Filling held = filling(bytes, iteration);
    bool right = !is_origin() || accesses_.right_at_origin(held, steps_);
    if (is_target())
      epochs_->at_home([&] { right &= accesses_.right_in_window(held, window_.memory(), steps_); });
    return right;
  }

  bool validate(uint64_t bytes) {
    constexpr uint64_t large = 1 << 20;
    const int64_t iterations = bytes < large ? 10 : 3;
    int right = arrived(bytes, 0), right_everywhere = 0;
    for (int64_t i = 1; i <= iterations; ++i) {
      fill(bytes, i);
      epochs_->open(is_origin());
      step(bytes);
      close();
      right &= arrived(bytes, i);
    }
    MPI_Allreduce(&right, &right_everywhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return right_everywhere;
  }

  const BenchArguments& arguments_;
  int pairs_;
  MPI_Comm pair_;
  Sync sync_;
  Accesses& accesses_;
  OwnedWindow& window_;
  int rank_ = 0;
  std::optional<Epochs> epochs_;
  int64_t steps_ = 0;  // since the last filling
};

const char* way_of_bytes(const BenchmarkKind& kind) {
  if (kind.id == Benchmark::access_both_ways) return " <-> ";
  return kind.access == Access::get ? " <- " : " -> ";
}

void require_memory(const BenchArguments& arguments, const Ranks& ranks) {
  const uint64_t step = most_bytes(arguments), copies = arguments.raw ? 2 * step : 0;
  for (auto [place, bytes] : {std::pair(arguments.placement[0][0], origin_bytes(arguments, step) + copies),
                              std::pair(arguments.placement[1][0], step)})
    if (std::string lacking = shortage(place_of(place), bytes, ranks.local_size); !lacking.empty())
      throw usage(fmt::format("{}: size {}: {}; give a smaller -m{}", arguments.kind->name, arguments.largest,
                              lacking, arguments.kind->one_message() ? "" : " or -W"));
}

}  // namespace

int one_sided_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  ranks.together([&] { check_ranks(arguments, ranks.size); });
  const int pairs = ranks.size / 2;
  const OwnedComm pair(ranks.rank % pairs, ranks.rank);
  std::unique_ptr<Accesses> accesses;
  std::optional<OwnedWindow> window;
  std::optional<Yardstick> yardstick;
  std::optional<OneSided> one_sided;
  std::optional<MessageReport> report;

  ranks.together([&] {
    if (provider_of(arguments) != "none" || arguments.needs_device()) ranks.take_device(arguments);
    require_memory(arguments, ranks);
    accesses = make_accesses(arguments, place_of(arguments.placement[0][0]), most_bytes(arguments));
  });
  ranks.together([&] {
    window.emplace(arguments, most_bytes(arguments), pair.get());
    if (arguments.raw)
      yardstick.emplace(arguments, ranks, MPI_COMM_WORLD, accesses->buffer(), window->memory(),
                        most_bytes(arguments));
    one_sided.emplace(arguments, pairs, pair.get(), *accesses, *window);
  });
  const std::vector<std::string> devices = ranks.devices(MPI_COMM_WORLD);
  const auto half = devices.begin() + pairs;
  ranks.open(report, arguments, "MPI",
             fmt::format("{}{}{}", fmt::join(devices.begin(), half, ","), way_of_bytes(*arguments.kind),
                         fmt::join(half, devices.end(), ",")));

  for (uint64_t bytes : arguments.sizes()) {
    Measurement m = one_sided->measure(bytes);
    if (yardstick) yardstick->measure(&m);
    if (report) report->add(m);
  }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
