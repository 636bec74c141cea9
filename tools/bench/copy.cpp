// SPDX-License-Identifier: Apache-2.0
//
// `fairlead bench copy`: the provider's own copy between two devices in one process, as the yardstick for
// messages. Latency is one copy and the wait for it; bandwidth is a window of copies and one wait. The stream
// belongs to the destination, as in Fairlead's own transport, where the receiver pulls. Both ways at once
// each device has a window of its own. Windows of copies out of the source to pinned host memory, and from
// there into the destination, are the yardstick for staging.

#include <fairlead/device.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "bench/bench.h"
#include "bench/buffer.h"
#include "bench/device_copy.h"
#include "bench/report.h"

namespace fairlead::tools {

using device::Runtime;

int copy_benchmark(const BenchArguments& arguments) {
  Runtime* runtime = runtime_with_devices(arguments);
  int devices = fairlead_device_count();
  int from = 0, to = devices > 1 ? 1 : 0;
  if (from != to)
    for (auto [one, other] : {std::pair(to, from), std::pair(from, to)})
      runtime->enable_peer(one, other);  // where refused, the driver stages: that is its own copy

  fairlead_device_set(from);
  if (std::string lacking = shortage(Place::device, arguments.largest * (from == to ? 4 : 2), 1);
      !lacking.empty())
    throw usage(fmt::format("copy: size {}: {}; give a smaller -m", arguments.largest, lacking));
  Buffer source(Place::device, arguments.largest), back_target(Place::device, arguments.largest);
  fairlead_device_set(to);
  Buffer target(Place::device, arguments.largest), back_source(Place::device, arguments.largest);
  Buffer host(Place::pinned, arguments.largest);
  OwnedStream stream(runtime, to, arguments), source_stream(runtime, from, arguments);

  bool simulated = std::strcmp(runtime->name(), "sim") == 0;
  Report report(arguments, {.via = "device copy", .devices = fmt::format("{} -> {}", from, to)});
  for (uint64_t bytes : arguments.sizes()) {
    auto start = [&](const Buffer& into, const Buffer& out_of, const OwnedStream& on) {
      require(runtime, runtime->copy(into.address(), out_of.address(), bytes, on.get()), arguments,
              "cannot copy");
    };
    auto wait = [&](const OwnedStream& on) {
      require(runtime, runtime->synchronize_stream(on.get()), arguments, "cannot wait for a copy");
    };
    auto copies = [&](int count, const Buffer& into, const Buffer& out_of, const OwnedStream& on) {
      for (int i = 0; i < count; ++i) start(into, out_of, on);
      wait(on);
    };
    auto both_ways = [&] {
      for (int i = 0; i < arguments.window; ++i) {
        start(target, source, stream);
        start(back_target, back_source, source_stream);
      }
      wait(stream);
      wait(source_stream);
    };
    source.write_pattern(0, bytes, bytes);
    target.clear(0, bytes);
    Measurement m{.bytes = bytes};
    auto timed = [&](UsualIterations usual, auto step) {
      return timed_steps(arguments, bytes, usual, simulated, &m.iterations, step);
    };
    auto rate = [&](double window_bytes, auto step) {
      return scaled(timed(usual_windows, step), [=](double s) { return window_bytes / s / 1e6; });
    };
    const double window_bytes = double(bytes) * arguments.window;
    auto bandwidth = [&](const Buffer& into, const Buffer& out_of, const OwnedStream& on) {
      return rate(window_bytes, [&] { copies(arguments.window, into, out_of, on); });
    };
    m.latency_us = scaled(timed(usual_messages, [&] { copies(1, target, source, stream); }),
                          [](double s) { return s * 1e6; });
    m.bandwidth_mb_s = bandwidth(target, source, stream);
    if (arguments.validate) m.valid = target.holds_pattern(0, bytes, bytes);
    if (arguments.validate) {
      target.clear(0, bytes);
      back_source.write_pattern(0, bytes, bytes);
      back_target.clear(0, bytes);
    }
    m.both_ways_mb_s = rate(2 * window_bytes, both_ways);
    if (arguments.validate)
      m.valid =
          *m.valid && target.holds_pattern(0, bytes, bytes) && back_target.holds_pattern(0, bytes, bytes);
    m.device_to_host_mb_s = bandwidth(host, source, source_stream);
    if (arguments.validate) target.clear(0, bytes);
    m.host_to_device_mb_s = bandwidth(target, host, stream);
    if (arguments.validate) m.valid = *m.valid && target.holds_pattern(0, bytes, bytes);
    report.add(m);
  }
  return report.finish();
}

}  // namespace fairlead::tools
