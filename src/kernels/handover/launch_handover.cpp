// SPDX-License-Identifier: Apache-2.0
//
// The host side of handover.h.

#include <algorithm>
#include <string>

#include "kernels/handover/handover.h"
#include "kernels/kernel_table.h"
#include "kernels/parameters.h"

namespace fairlead::kernels {

ModuleImages handover_images();

namespace {

using device::Error;

// Enough for the links, and few enough for their words to be few.
constexpr uint64_t units_of_thread = 8, threads_of_message = 8192;
constexpr uint64_t warp = 32;

constexpr uint64_t rounded(uint64_t number, uint64_t to) {
  return (number + to - 1) / to * to;
}

Error find_handover(int device, device::Kernel* kernel) {
  return find_kernel(
      device, handover_images, 0, [](int) { return std::string("hand_over"); }, kernel);
}

}  // namespace

unsigned HandOverShape::threads() const {
  const uint64_t wanted = rounded(bytes, units_of_thread * handover_unit) / (units_of_thread * handover_unit);
  const uint64_t at_most = std::max(threads_of_message / std::max(partitions, 1u), warp);
  const uint64_t threads = std::clamp(wanted, uint64_t{1}, at_most);
  return static_cast<unsigned>(threads <= threads_per_block ? rounded(threads, warp)
                                                            : rounded(threads, threads_per_block));
}

// A word for each thread, a count for each partition, and one for the message.
uint64_t HandOverShape::words_bytes() const {
  return rounded(sizeof(uint32_t) * (uint64_t{partitions} * threads() + partitions + 1), handover_unit);
}

bool handover_available(int device) {
  device::Kernel kernel;
  return device::runtime() && find_handover(device, &kernel) == Error::none;
}

Error launch_handover(int device, device::Stream stream, const HandOver& call, const Signal& signal) {
  if (!device::runtime()) return Error::not_initialized;
  const HandOverShape& shape = call.shape;
  if (call.count == 0 || call.first + call.count > shape.partitions || shape.bytes == 0)
    return Error::invalid_value;
  device::Kernel kernel;
  if (Error error = find_handover(device, &kernel); error != Error::none) return error;

  const auto at = [](const void* memory, uint64_t offset) {
    return const_cast<char*>(static_cast<const char*>(memory)) + offset;
  };
  const unsigned threads = shape.threads(), block = std::min(threads, threads_per_block);
  HandOverBuffers buffers{};
  if (call.from) buffers.at[handover_from] = at(call.from, call.first * shape.bytes);
  buffers.at[handover_buffer] = at(call.buffer, call.first * shape.bytes);
  buffers.at[handover_bounce] = at(call.area, shape.words_bytes() + call.first * shape.bounce_step());
  buffers.at[handover_words] = call.area;
  buffers.at[handover_counts] = at(call.area, sizeof(uint32_t) * uint64_t{shape.partitions} * threads);
  buffers.at[handover_arrived] = call.arrived;
  buffers.at[handover_sent] = call.sent;
  HandOverWork work{};
  work.bytes = shape.bytes;
  work.bounce_step = shape.bounce_step();
  work.threads = threads;
  work.first = call.first;
  work.partitions = shape.partitions;
  work.gives = call.from != nullptr;
  void* arguments[] = {&buffers, &work, const_cast<Signal*>(&signal)};
  return device::runtime()->launch(kernel, call.count * (threads / block), block, arguments, stream);
}

}  // namespace fairlead::kernels
