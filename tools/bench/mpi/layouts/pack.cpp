// SPDX-License-Identifier: Apache-2.0
//
// pack: MPI_Pack and MPI_Unpack of a vector, and the copy that moves as many cache lines: it reads those that
// hold the blocks and writes those of the packed bytes, so that it copies as many bytes as half of both.

#include <fairlead/device.h>

#include <cstring>
#include <optional>

#include "bench/device_copy.h"
#include "bench/mpi/layouts/layout_report.h"
#include "bench/mpi/layouts/layout_run.h"

namespace fairlead::tools {
namespace {

// What a copy moves in place of the layout, and of its packed bytes.
uint64_t copied_bytes(const Layout& layout, uint64_t line) {
  return (touched_lines(layout, line) + touched_lines(contiguous_layout(layout.bytes), line)) * line / 2;
}

// No layout of the arguments needs more.
uint64_t gapped_bytes(const BenchArguments& a) {
  return a.packed_bytes * static_cast<uint64_t>(a.stride) + static_cast<uint64_t>(a.line);
}

class Packing {
 public:
  Packing(const BenchArguments& arguments, const LayoutRun& run)
      : arguments_(arguments),
        run_(run),
        gapped_(place_of(arguments.placement[0][0]), gapped_bytes(arguments)),
        packed_(place_of(arguments.placement[1][0]), gapped_bytes(arguments)) {
    if (!arguments.needs_device()) return;
    int device = 0;
    fairlead_device_get(&device);
    runtime_ = runtime_with_devices(arguments);
    stream_.emplace(runtime_, device, arguments);
  }

  LayoutMeasurement measure(uint64_t block) {
    const Layout layout = vector_layout(arguments_.packed_bytes / block, block, arguments_.stride);
    const OwnedType type(layout);
    LayoutMeasurement m{.block = block, .bytes = layout.bytes, .blocks = layout.blocks};
    gapped_.write_pattern(0, layout.span, block);
    m.pack_mb_s = rate(&m, [&] { pack(type.get(), layout); });
    m.unpack_mb_s = rate(&m, [&] { unpack(type.get(), layout); });
    if (arguments_.validate) m.valid = packs_right(type.get(), layout) && unpacks_right(type.get(), layout);
    const uint64_t bytes = copied_bytes(layout, static_cast<uint64_t>(arguments_.line));
    m.copy_mb_s = rate(&m, [&] { copy(bytes); });
    return m;
  }

 private:
  template <class Step>
  Distribution rate(LayoutMeasurement* m, Step step) {
    LayoutRun::Seconds seconds = run_.timed(m->bytes, step);
    m->iterations = std::max(m->iterations, static_cast<int64_t>(seconds.each.size()));
    m->cut_short |= seconds.cut_short;
    return scaled(std::move(seconds.each), [&](double s) { return double(m->bytes) / s / 1e6; });
  }

  void pack(MPI_Datatype type, const Layout& layout) {
    int position = 0;
    MPI_Pack(gapped_.address(), layout.count, type, packed_.address(), static_cast<int>(layout.bytes),
             &position, MPI_COMM_WORLD);
  }
  void unpack(MPI_Datatype type, const Layout& layout) {
    int position = 0;
    MPI_Unpack(packed_.address(), static_cast<int>(layout.bytes), &position, gapped_.address(), layout.count,
               type, MPI_COMM_WORLD);
  }
  void copy(uint64_t bytes) {
    if (!runtime_) {
      std::memcpy(packed_.address(), gapped_.address(), bytes);
      return;
    }
    require(runtime_, runtime_->copy(packed_.address(), gapped_.address(), bytes, stream_->get()), arguments_,
            "cannot copy");
    require(runtime_, runtime_->synchronize_stream(stream_->get()), arguments_, "cannot wait for a copy");
  }

  bool packs_right(MPI_Datatype type, const Layout& layout) {
    const Image from(layout.span, layout.span);
    from.write_to(&gapped_);
    packed_.clear(0, layout.bytes);
    pack(type, layout);
    Image expected(layout.bytes);
    expected.take(contiguous_layout(layout.bytes), from, layout);
    return expected.same_in(packed_);
  }
  bool unpacks_right(MPI_Datatype type, const Layout& layout) {
    const Image from(layout.bytes, layout.span + 1);
    from.write_to(&packed_);
    gapped_.clear(0, layout.span);
    unpack(type, layout);
    Image expected(layout.span);
    expected.take(layout, from, contiguous_layout(layout.bytes));
    return expected.same_in(gapped_);
  }

  const BenchArguments& arguments_;
  const LayoutRun& run_;
  Buffer gapped_, packed_;
  device::Runtime* runtime_ = nullptr;
  std::optional<OwnedStream> stream_;
};

}  // namespace

int pack_benchmark(const BenchArguments& asked, Ranks& ranks) {
  const BenchArguments arguments = with_usual_sizes(asked);
  std::optional<LayoutRun> run;
  std::optional<Packing> packing;
  std::optional<LayoutReport> report;
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    for (const std::string& letter : arguments.placement)
      prepare_layouts(arguments, ranks, place_of(letter[0]), 2 * gapped_bytes(arguments), "--bytes");
    run.emplace(arguments, MPI_COMM_WORLD);
    packing.emplace(arguments, *run);
  });
  ranks.open(report, arguments, "MPI", std::to_string(ranks.device));
  for (uint64_t block : arguments.sizes()) report->add(packing->measure(block));
  return ranks.finish(report);
}

}  // namespace fairlead::tools
