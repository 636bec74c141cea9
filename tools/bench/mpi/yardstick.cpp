// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/yardstick.h"

#include <fairlead/device.h>
#include <fmt/format.h>

#include <cstring>

#include "bench/mpi/bench_kernels.h"

namespace fairlead::tools {

Yardstick::Yardstick(const BenchArguments& arguments, const Ranks& ranks, MPI_Comm pair, Buffer& near,
                     Buffer& near_back, uint64_t bytes)
    : arguments_(arguments), runtime_(runtime_with_devices(arguments)), measures_(ranks.rank == 0) {
  if (arguments.kind->one_word()) {
    if (measures_) find_kernel(ranks.device);
    return;
  }
  const int theirs = device_of_partner(pair, ranks.device);
  if (measures_) open_copies(ranks.device, theirs, near, near_back, bytes);
}

// As this rank counts devices.
int Yardstick::device_of_partner(MPI_Comm pair, int own) {
  device::DeviceInfo mine{}, theirs{};
  require(runtime_, runtime_->device_info(own, &mine), arguments_, "cannot ask a device what it is");
  const int partner = measures_ ? 1 : 0;
  MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, partner, message_tag, &theirs, sizeof theirs, MPI_BYTE, partner,
               message_tag, pair, MPI_STATUS_IGNORE);
  int devices = 0;
  runtime_->device_count(&devices);
  for (int device = 0; device < devices; ++device)
    if (runtime_->device_info(device, &mine) == device::Error::none &&
        std::memcmp(mine.uuid, theirs.uuid, sizeof mine.uuid) == 0)
      return device;
  if (!measures_) return -1;
  throw cannot_run(
      fmt::format("{}--raw: rank 0 does not see the GPU of rank 1; start both on one node, where each "
                  "sees all GPUs",
                  arguments_.name_in_refusals()));
}

void Yardstick::open_copies(int own, int theirs, Buffer& near, Buffer& near_back, uint64_t bytes) {
  const bool both = arguments_.kind->id == Benchmark::access_both_ways;
  // Where that is refused, the driver stages: that is its own copy.
  if (own != theirs) runtime_->enable_peer(own, theirs);
  fairlead_device_set(theirs);
  far_.emplace(Place::device, bytes);
  if (both) far_back_.emplace(Place::device, bytes);
  fairlead_device_set(own);
  stream_.emplace(runtime_, own, arguments_);
  if (arguments_.kind->access == Access::get)
    directions_ = {{&near, &*far_, &*stream_}};
  else
    directions_ = {{&*far_, &near, &*stream_}};
  if (!both) return;
  if (own != theirs) runtime_->enable_peer(theirs, own);
  stream_back_.emplace(runtime_, theirs, arguments_);
  directions_.push_back({&near_back, &*far_back_, &*stream_back_});
}

void Yardstick::copies(uint64_t bytes, int count) {
  for (int i = 0; i < count; ++i)
    for (const Direction& direction : directions_) {
      const uint64_t at = static_cast<uint64_t>(i) * bytes;
      require(
          runtime_,
          runtime_->copy(static_cast<char*>(direction.to->address()) + at,
                         static_cast<char*>(direction.from->address()) + at, bytes, direction.stream->get()),
          arguments_, "cannot copy");
    }
  for (const Direction& direction : directions_)
    require(runtime_, runtime_->synchronize_stream(direction.stream->get()), arguments_,
            "cannot wait for a copy");
}

void Yardstick::find_kernel(int device) {
  stream_.emplace(runtime_, device, arguments_);
  const std::vector<device::CodeImage>& images = bench_kernel_images();
  require(runtime_, runtime_->find_kernel(device, images.data(), images.size(), "empty", &empty_), arguments_,
          "--raw: cannot load a kernel");
}

void Yardstick::launch() {
  unsigned nothing = 0;
  void* parameters[] = {&nothing};
  require(runtime_, runtime_->launch(empty_, 1, 1, parameters, stream_->get()), arguments_,
          "cannot launch a kernel");
  require(runtime_, runtime_->synchronize_stream(stream_->get()), arguments_, "cannot wait for a kernel");
}

void Yardstick::measure(Measurement* m) {
  if (!measures_) return;
  int64_t iterations = 0;
  auto timed = [&](UsualIterations usual, auto step) {
    return timed_steps(arguments_, m->bytes, usual, is_simulated(arguments_), &iterations, step);
  };
  auto us = [](double seconds) { return seconds * 1e6; };
  if (arguments_.kind->one_word()) {
    m->raw_us = scaled(timed(usual_messages, [&] { launch(); }), us);
  } else if (arguments_.kind->one_message()) {
    m->raw_us = scaled(timed(usual_messages, [&] { copies(m->bytes, 1); }), us);
  } else {
    const double bytes = double(m->bytes) * arguments_.window * double(directions_.size());
    m->raw_mb_s = scaled(timed(usual_windows, [&] { copies(m->bytes, arguments_.window); }),
                         [=](double seconds) { return bytes / seconds / 1e6; });
  }
}

}  // namespace fairlead::tools
