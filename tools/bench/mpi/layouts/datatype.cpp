// SPDX-License-Identifier: Apache-2.0
//
// datatype: messages of one layout after the other between two ranks. The contiguous ones come first, from
// the same buffers, so that what a first message costs is of the type and not of the memory.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/device_copy.h"
#include "bench/mpi/layouts/layout_report.h"
#include "bench/mpi/layouts/layout_run.h"

namespace fairlead::tools {
namespace {

class Messages {
 public:
  Messages(const BenchArguments& arguments, const LayoutRun& run, int partner, uint64_t largest)
      : arguments_(arguments),
        run_(run),
        partner_(partner),
        outgoing_(place(), largest),
        incoming_(place(), largest) {}

  LayoutMeasurement measure(const std::string& name, const Layout& layout) {
    LayoutMeasurement m{.name = name, .bytes = layout.bytes, .blocks = layout.blocks};
    outgoing_.write_pattern(0, layout.span, seed(layout, 0, rank()));
    const int doubles = static_cast<int>(layout.bytes / sizeof(double));
    m.contiguous_us = latency(&m, [&] { ping_pong(doubles, MPI_DOUBLE); });
    measure_first(&m, layout);
    const OwnedType type(layout);
    incoming_.clear(0, layout.span);
    m.latency_us = latency(&m, [&] { ping_pong(layout.count, type.get()); });
    if (!arguments_.validate) return m;
    bool right = arrived(layout, 0);
    outgoing_.write_pattern(0, layout.span, seed(layout, 1, rank()));
    incoming_.clear(0, layout.span);
    ping_pong(layout.count, type.get());
    right &= arrived(layout, 1);
    m.valid = run_.everywhere(right);
    return m;
  }

 private:
  int rank() const { return 1 - partner_; }
  Place place() const { return place_of(arguments_.placement[static_cast<size_t>(rank())][0]); }
  // Of what a rank sends; no two layouts of one run need differ.
  static uint64_t seed(const Layout& layout, int filling, int rank) {
    return layout.span * 4 + static_cast<uint64_t>(2 * filling + rank);
  }

  template <class Step>
  Distribution latency(LayoutMeasurement* m, Step step) {
    LayoutRun::Seconds seconds = run_.timed(m->bytes, step);
    m->iterations = static_cast<int64_t>(seconds.each.size());
    m->cut_short |= seconds.cut_short;
    return scaled(std::move(seconds.each), [](double s) { return s * 1e6 / 2; });
  }

  // Types that are made anew. A second message follows where the first did not take all the time there is.
  void measure_first(LayoutMeasurement* m, const Layout& layout) {
    std::vector<double> make, first, second;
    double spent = 0;
    for (int round = 0; round < arguments_.rounds && spent < arguments_.timeout_s; ++round) {
      std::optional<OwnedType> type;
      auto us = [](std::vector<double> seconds) { return seconds.front() * 1e6; };
      auto message = [&] { acknowledged(layout.count, type->get()); };
      make.push_back(us(time_batches(1, [&] { type.emplace(layout); })));
      run_.longest(0);  // both ranks have their type
      first.push_back(us(time_batches(1, message)));
      spent += run_.longest(first.back() / 1e6);
      if (spent >= arguments_.timeout_s) break;
      second.push_back(us(time_batches(1, message)));
      spent += run_.longest(second.back() / 1e6);
    }
    m->make_us = distribution(std::move(make));
    m->first_us = distribution(std::move(first));
    if (!second.empty()) m->second_us = distribution(std::move(second));
  }

  void send(int count, MPI_Datatype type) {
    MPI_Send(outgoing_.address(), count, type, partner_, message_tag, MPI_COMM_WORLD);
  }
  void receive(int count, MPI_Datatype type) {
    MPI_Recv(incoming_.address(), count, type, partner_, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void ping_pong(int count, MPI_Datatype type) {
    if (rank() == 0) send(count, type);
    receive(count, type);
    if (rank() == 1) send(count, type);
  }
  // One message, and no more than a word that it is there.
  void acknowledged(int count, MPI_Datatype type) {
    char arrived = 0;
    if (rank() == 0) {
      send(count, type);
      MPI_Recv(&arrived, 1, MPI_BYTE, partner_, message_tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      receive(count, type);
      MPI_Send(&arrived, 1, MPI_BYTE, partner_, message_tag + 1, MPI_COMM_WORLD);
    }
  }

  // The partner's blocks, and nothing in the gaps.
  bool arrived(const Layout& layout, int filling) {
    Image expected(layout.span);
    expected.take(layout, Image(layout.span, seed(layout, filling, partner_)), layout);
    return expected.same_in(incoming_);
  }

  const BenchArguments& arguments_;
  const LayoutRun& run_;
  int partner_;
  Buffer outgoing_, incoming_;
};

}  // namespace

int datatype_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  ranks.together([&] { check_ranks(arguments, ranks.size); });
  const int partner = 1 - ranks.rank;
  std::vector<Layout> layouts;
  uint64_t largest = 0;
  std::optional<LayoutRun> run;
  std::optional<Messages> messages;
  std::optional<LayoutReport> report;
  ranks.together([&] {
    for (const std::string& type : arguments.types) {
      layouts.push_back(named_layout(type, arguments.blocks));
      largest = std::max(largest, layouts.back().span);
    }
    prepare_layouts(arguments, ranks, place_of(arguments.placement[static_cast<size_t>(ranks.rank)][0]),
                    2 * largest, "--blocks");
    run.emplace(arguments, MPI_COMM_WORLD);
    messages.emplace(arguments, *run, partner, largest);
  });
  std::string devices = fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), " -> "));
  ranks.open(report, arguments, "MPI", devices);
  for (size_t i = 0; i < layouts.size(); ++i) {
    LayoutMeasurement m = messages->measure(arguments.types[i], layouts[i]);
    if (report) report->add(m);
  }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
