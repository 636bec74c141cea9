// SPDX-License-Identifier: Apache-2.0

#include "bench/device_copy.h"

#include <fmt/format.h>

namespace fairlead::tools {

void require(device::Runtime* runtime, device::Error error, const BenchArguments& arguments,
             const char* doing) {
  if (error != device::Error::none)
    throw cannot_run(fmt::format("{}{}: {} {}", arguments.name_in_refusals(), doing, to_string(error),
                                 runtime->error_text()));
}

device::Runtime* runtime_with_devices(const BenchArguments& arguments) {
  device::Runtime* runtime = device::whole_runtime();
  if (!runtime)
    throw cannot_run(
        fmt::format("{}no GPU provider; FAIRLEAD_DEVICE=sim simulates GPUs", arguments.name_in_refusals()));
  int devices = 0;
  runtime->device_count(&devices);
  if (devices == 0)
    throw cannot_run(
        fmt::format("{}provider {} finds no device", arguments.name_in_refusals(), runtime->name()));
  return runtime;
}

OwnedStream::OwnedStream(device::Runtime* runtime, int device, const BenchArguments& arguments)
    : runtime_(runtime) {
  require(runtime, runtime->create_stream(device, &stream_), arguments, "cannot create a stream");
}

}  // namespace fairlead::tools
