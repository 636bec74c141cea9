// SPDX-License-Identifier: Apache-2.0
//
// halo: two ranks that are neighbours exchange a face of their cubes: each sends its layer next to the
// outermost, and receives into that. Rows are contiguous along i; a face goes by the direction it stands
// across: that of i has a block for each double, that of j for each row, that of k is one block.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/device_copy.h"
#include "bench/mpi/layouts/layout_report.h"
#include "bench/mpi/layouts/layout_run.h"

namespace fairlead::tools {
namespace {

struct Face {
  const char* name;
  size_t across;  // dimension of a box, the first of which is the slowest
};
constexpr Face faces[] = {{"i", 2}, {"j", 1}, {"k", 0}};

Layout layer(int edge, const Face& face, int number) {
  Box size = {edge, edge, edge}, start = {};
  size[face.across] = 1;
  start[face.across] = number;
  return box_layout(edge, size, start);
}

uint64_t cube_bytes(int edge) {
  const auto n = static_cast<uint64_t>(edge);
  return n * n * n * sizeof(double);
}

class Halo {
 public:
  Halo(const BenchArguments& arguments, const LayoutRun& run, int partner)
      : arguments_(arguments),
        run_(run),
        partner_(partner),
        bytes_(cube_bytes(arguments.edge)),
        place_(place_of(arguments.placement[partner == 1 ? 0 : 1][0])),
        cube_(place_, bytes_),
        outgoing_(place_, layer(arguments.edge, faces[0], 0).bytes),
        incoming_(place_, layer(arguments.edge, faces[0], 0).bytes) {
    cube_.write_pattern(0, bytes_, seed(0, partner == 1 ? 0 : 1));
  }

  LayoutMeasurement measure(const Face& face) {
    const Layout inner = layer(arguments_.edge, face, 1), outer = layer(arguments_.edge, face, 0);
    const OwnedType out(inner), in(outer);
    LayoutMeasurement m{.name = face.name, .bytes = inner.bytes, .blocks = inner.blocks};
    const int doubles = static_cast<int>(inner.bytes / sizeof(double));
    m.contiguous_us = timed(&m, [&] {
      exchange({outgoing_.address(), doubles, MPI_DOUBLE}, {incoming_.address(), doubles, MPI_DOUBLE},
               partner_);
    });
    auto step = [&] {
      exchange({cube_.address(), inner.count, out.get()}, {cube_.address(), outer.count, in.get()}, partner_);
    };
    if (arguments_.validate) fill(++fillings_);
    m.latency_us = timed(&m, step);
    if (!arguments_.validate) return m;
    bool right = arrived(inner, outer, fillings_);
    fill(++fillings_);
    step();
    right &= arrived(inner, outer, fillings_);
    m.valid = run_.everywhere(right);
    return m;
  }

 private:
  template <class Step>
  Distribution timed(LayoutMeasurement* m, Step step) {
    LayoutRun::Seconds seconds = run_.timed(m->bytes, step);
    m->iterations = static_cast<int64_t>(seconds.each.size());
    m->cut_short |= seconds.cut_short;
    return scaled(std::move(seconds.each), [](double s) { return s * 1e6; });
  }

  static uint64_t seed(int filling, int rank) { return static_cast<uint64_t>(2 * filling + rank); }

  void fill(int filling) { cube_.write_pattern(0, bytes_, seed(filling, 1 - partner_)); }

  // The partner's layer, and nothing else, in place of the outermost.
  bool arrived(const Layout& inner, const Layout& outer, int filling) {
    Image expected(bytes_, seed(filling, 1 - partner_));
    expected.take(outer, Image(bytes_, seed(filling, partner_)), inner);
    return expected.same_in(cube_);
  }

  const BenchArguments& arguments_;
  const LayoutRun& run_;
  int partner_;
  uint64_t bytes_;
  Place place_;
  Buffer cube_, outgoing_, incoming_;
  int fillings_ = 0;
};

}  // namespace

int halo_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  ranks.together([&] { check_ranks(arguments, ranks.size); });
  const int partner = 1 - ranks.rank;
  std::optional<LayoutRun> run;
  std::optional<Halo> halo;
  std::optional<LayoutReport> report;
  ranks.together([&] {
    const uint64_t face_bytes = cube_bytes(arguments.edge) / static_cast<uint64_t>(arguments.edge);
    prepare_layouts(arguments, ranks, place_of(arguments.placement[static_cast<size_t>(ranks.rank)][0]),
                    cube_bytes(arguments.edge) + 2 * face_bytes, "-N");
    run.emplace(arguments, MPI_COMM_WORLD);
    halo.emplace(arguments, *run, partner);
  });
  std::string devices = fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), " <-> "));
  ranks.open(report, arguments, "MPI", devices);
  for (const Face& face : faces) {
    LayoutMeasurement m = halo->measure(face);
    if (report) report->add(m);
  }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
