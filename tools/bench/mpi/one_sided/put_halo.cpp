// SPDX-License-Identifier: Apache-2.0
//
// put_halo: all ranks stand in a ring, and each gives its two borders to its neighbours, who take them for
// their ghosts: by two puts and what ends them, and by two calls of MPI_Sendrecv between memory of the same
// kinds. An exchange ends once; what keeps a neighbour from reading its ghosts while the next ones come is
// the program's.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/device_copy.h"
#include "bench/message_report.h"
#include "bench/mpi/count.h"
#include "bench/mpi/one_sided/epochs.h"
#include "bench/mpi/one_sided/window.h"
#include "bench/mpi/ranks.h"
#include "bench/mpi/repeat.h"

namespace fairlead::tools {
namespace {

class Ring {
 public:
  Ring(const BenchArguments& arguments, const Ranks& ranks)
      : arguments_(arguments),
        rank_(ranks.rank),
        size_(ranks.size),
        left_((ranks.rank + ranks.size - 1) % ranks.size),
        right_((ranks.rank + 1) % ranks.size),
        borders_(place_of(arguments.placement[0][0]), 2 * arguments.largest),
        received_(place_of(arguments.placement[1][0]), 2 * arguments.largest) {}

  // Collective.
  void open_window() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    window_.emplace(arguments_, 2 * arguments_.largest, comm_);
    std::vector<int> neighbours = {left_};
    if (right_ != left_) neighbours.push_back(right_);
    epochs_.emplace(sync_named(arguments_.sync), window_->get(), comm_, neighbours);
  }
  ~Ring() {
    epochs_.reset();
    window_.reset();
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  Measurement measure(uint64_t bytes) {
    Measurement m{.bytes = bytes};
    fill(bytes, 0);
    m.sendrecv_us = timed(&m, [&] { send_and_receive(bytes); });
    bool right = holds_ghosts(received_, bytes, 0);
    epochs_->open(true);
    m.put_us = timed(&m, [&] { put(bytes); });
    close();
    if (!arguments_.validate) return m;
    right &= put_arrived(bytes, 0);
    fill(bytes, 1);
    send_and_receive(bytes);
    epochs_->open(true);
    put(bytes);
    close();
    right &= holds_ghosts(received_, bytes, 1);
    right &= put_arrived(bytes, 1);
    int here = right, everywhere = 0;
    MPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_MIN, comm_);
    m.valid = everywhere;
    return m;
  }

 private:
  // The left border, and what comes from there, lies before the right one.
  enum Side : int { left, right };
  static uint64_t at(Side side, uint64_t bytes) { return side == left ? 0 : bytes; }

  void put(uint64_t bytes) {
    const Count count(bytes);
    epochs_->exchange([&] {
      for (auto [from, to, target] : {std::tuple(left, right, left_), std::tuple(right, left, right_)})
        MPI_Put(static_cast<char*>(borders_.address()) + at(from, bytes), count.number, count.type, target,
                window_->displacement(target, at(to, bytes)), count.number, count.type, window_->get());
    });
  }

  void send_and_receive(uint64_t bytes) {
    const Count count(bytes);
    for (auto [from, to, target, source] :
         {std::tuple(left, right, left_, right_), std::tuple(right, left, right_, left_)})
      MPI_Sendrecv(static_cast<char*>(borders_.address()) + at(from, bytes), count.number, count.type, target,
                   message_tag, static_cast<char*>(received_.address()) + at(to, bytes), count.number,
                   count.type, source, message_tag, comm_, MPI_STATUS_IGNORE);
  }

  template <class Step>
  Distribution timed(Measurement* m, Step step) {
    auto repeat = [&](int64_t steps) { return time_batches(steps, step); };
    MPI_Barrier(comm_);
    m->iterations = warm_up(arguments_, comm_, m->bytes, usual_messages, repeat);
    MPI_Barrier(comm_);
    return scaled(means_over(size_, repeat(m->iterations), comm_), [](double s) { return s * 1e6; });
  }

  void close() {
    epochs_->close(true);
    MPI_Barrier(comm_);
  }

  uint64_t seed(uint64_t bytes, int64_t filling, int rank, Side side) const {
    return ((bytes << 20) + static_cast<uint64_t>(2 * rank + side)) * 2 + static_cast<uint64_t>(filling);
  }

  void fill(uint64_t bytes, int64_t filling) {
    for (Side side : {left, right}) {
      // Each border is a pattern of its own, which begins with its memory.
      Buffer border(place_of(arguments_.placement[0][0]), Buffer::Lent{address(borders_, side, bytes)});
      border.write_pattern(0, bytes, seed(bytes, filling, rank_, side));
    }
    received_.clear(0, 2 * bytes);
    epochs_->at_home([&] { window_->memory().clear(0, 2 * bytes); });
    MPI_Barrier(comm_);
  }

  static char* address(const Buffer& of, Side side, uint64_t bytes) {
    return static_cast<char*>(of.address()) + at(side, bytes);
  }

  bool holds_ghosts(const Buffer& memory, uint64_t bytes, int64_t filling) const {
    auto holds = [&](Side side, int neighbour, Side of) {
      const Buffer ghost(place_of(arguments_.placement[1][0]), Buffer::Lent{address(memory, side, bytes)});
      return ghost.holds_pattern(0, bytes, seed(bytes, filling, neighbour, of));
    };
    return holds(left, left_, right) && holds(right, right_, left);
  }

  bool put_arrived(uint64_t bytes, int64_t filling) {
    bool holds = false;
    epochs_->at_home([&] { holds = holds_ghosts(window_->memory(), bytes, filling); });
    return holds;
  }

  const BenchArguments& arguments_;
  int rank_, size_, left_, right_;
  Buffer borders_, received_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::optional<OwnedWindow> window_;
  std::optional<Epochs> epochs_;
};

}  // namespace

int put_halo_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  std::optional<Ring> ring;
  std::optional<MessageReport> report;
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    if (provider_of(arguments) != "none" || arguments.needs_device()) ranks.take_device(arguments);
    for (const std::string& letter : arguments.placement)
      if (std::string lacking = shortage(place_of(letter[0]), 6 * arguments.largest, ranks.local_size);
          !lacking.empty())
        throw usage(fmt::format("put_halo: size {}: {}; give a smaller -m", arguments.largest, lacking));
    ring.emplace(arguments, ranks);
  });
  ranks.together([&] { ring->open_window(); });
  std::string devices = fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), ","));
  ranks.open(report, arguments, "MPI", devices);
  for (uint64_t bytes : arguments.sizes()) {
    Measurement m = ring->measure(bytes);
    if (report) report->add(m);
  }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
