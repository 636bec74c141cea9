// SPDX-License-Identifier: Apache-2.0
//
// `fairlead bench copy`: the provider's own copy between two devices in one process, as the yardstick for
// messages. Latency is one copy and the wait for it; bandwidth is a window of copies and one wait. The stream
// belongs to the destination, as in Fairlead's own transport, where the receiver gets the bytes. Both ways at
// once each device has a window of its own. Windows of copies out of the source to pinned host memory, and
// from there into the destination, are the yardstick for staging.

#include <fairlead/device.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "bench/bench.h"
#include "bench/buffer.h"
#include "bench/device_copy.h"
#include "bench/message_report.h"

namespace fairlead::tools {

using device::Runtime;

namespace {

class Copies {
 public:
  Copies(const BenchArguments& arguments, Runtime* runtime, int from, int to)
      : arguments_(arguments),
        runtime_(runtime),
        from_(from),
        to_(to),
        simulated_(std::strcmp(runtime->name(), "sim") == 0),
        source_(on(from)),
        back_target_(on(from)),
        target_(on(to)),
        back_source_(on(to)),
        host_(Place::pinned, arguments.largest),
        stream_(runtime, to, arguments),
        source_stream_(runtime, from, arguments) {
    open_direction(to, from);
  }

  Measurement one_way(uint64_t bytes) {
    Measurement m{.bytes = bytes};
    source_.write_pattern(0, bytes, bytes);
    target_.clear(0, bytes);
    m.latency_us = scaled(timed(&m, usual_messages, [&] { copies(1, bytes, target_, source_, stream_); }),
                          [](double s) { return s * 1e6; });
    m.bandwidth_mb_s = bandwidth(&m, target_, source_, stream_);
    check(&m, target_);
    m.device_to_host_mb_s = bandwidth(&m, host_, source_, source_stream_);
    if (arguments_.validate) target_.clear(0, bytes);
    m.host_to_device_mb_s = bandwidth(&m, target_, host_, stream_);
    check(&m, target_);
    return m;
  }

  void open_back() { open_direction(from_, to_); }

  void both_ways(Measurement* m) {
    for (auto [into, out_of] : {std::pair(&target_, &source_), std::pair(&back_target_, &back_source_)}) {
      out_of->write_pattern(0, m->bytes, m->bytes);
      into->clear(0, m->bytes);
    }
    m->both_ways_mb_s = rate(m, 2, [&] {
      for (int i = 0; i < arguments_.window; ++i) {
        start(m->bytes, target_, source_, stream_);
        start(m->bytes, back_target_, back_source_, source_stream_);
      }
      wait(stream_);
      wait(source_stream_);
    });
    check(m, target_);
    check(m, back_target_);
  }

 private:
  Buffer on(int device) {
    fairlead_device_set(device);
    return Buffer(Place::device, arguments_.largest);
  }

  // Where that is refused, the driver stages: that is its own copy.
  void open_direction(int device, int peer) {
    if (device != peer) runtime_->enable_peer(device, peer);
  }

  void start(uint64_t bytes, const Buffer& into, const Buffer& out_of, const OwnedStream& on) {
    require(runtime_, runtime_->copy(into.address(), out_of.address(), bytes, on.get()), arguments_,
            "cannot copy");
  }
  void wait(const OwnedStream& on) {
    require(runtime_, runtime_->synchronize_stream(on.get()), arguments_, "cannot wait for a copy");
  }
  void copies(int count, uint64_t bytes, const Buffer& into, const Buffer& out_of, const OwnedStream& on) {
    for (int i = 0; i < count; ++i) start(bytes, into, out_of, on);
    wait(on);
  }

  template <class Step>
  std::vector<double> timed(Measurement* m, UsualIterations usual, Step step) {
    return timed_steps(arguments_, m->bytes, usual, simulated_, &m->iterations, step);
  }
  // Of steps that move so many windows.
  template <class Step>
  Distribution rate(Measurement* m, int windows, Step step) {
    double bytes = double(m->bytes) * arguments_.window * windows;
    return scaled(timed(m, usual_windows, step), [=](double s) { return bytes / s / 1e6; });
  }
  Distribution bandwidth(Measurement* m, const Buffer& into, const Buffer& out_of, const OwnedStream& on) {
    return rate(m, 1, [&] { copies(arguments_.window, m->bytes, into, out_of, on); });
  }

  void check(Measurement* m, const Buffer& target) {
    if (arguments_.validate)
      m->valid = m->valid.value_or(true) && target.holds_pattern(0, m->bytes, m->bytes);
  }

  const BenchArguments& arguments_;
  Runtime* runtime_;
  int from_, to_;
  bool simulated_;
  Buffer source_, back_target_, target_, back_source_, host_;
  OwnedStream stream_, source_stream_;
};

}  // namespace

int copy_benchmark(const BenchArguments& arguments) {
  Runtime* runtime = runtime_with_devices(arguments);
  int devices = fairlead_device_count();
  int from = 0, to = devices > 1 ? 1 : 0;
  fairlead_device_set(from);
  if (std::string lacking = shortage(Place::device, arguments.largest * (from == to ? 4 : 2), 1);
      !lacking.empty())
    throw usage(fmt::format("copy: size {}: {}; give a smaller -m", arguments.largest, lacking));

  Copies copies(arguments, runtime, from, to);
  MessageReport report(arguments, {.via = "device copy", .devices = fmt::format("{} -> {}", from, to)});
  // Once each device may reach the other, CUDA's copies one way take 2 us longer: the way back comes last.
  std::vector<Measurement> measurements;
  for (uint64_t bytes : arguments.sizes()) measurements.push_back(copies.one_way(bytes));
  copies.open_back();
  for (Measurement& m : measurements) {
    copies.both_ways(&m);
    report.add(m);
  }
  return report.finish();
}

}  // namespace fairlead::tools
