// SPDX-License-Identifier: Apache-2.0
//
// The host side of meet.h.

#include <algorithm>
#include <iterator>
#include <string>

#include "kernels/kernel_table.h"
#include "kernels/meet.h"

namespace fairlead::kernels {

ModuleImages meet_images();

namespace {

using device::Error;

// In the order of their numbers.
constexpr struct {
  ReduceOp op;
  Element element;
} reductions[] = {
#define FAIRLEAD_ROW(op, element) {ReduceOp::op, Element::element},
    FAIRLEAD_MEET_REDUCTIONS(FAIRLEAD_ROW)
#undef FAIRLEAD_ROW
};
static_assert(std::size(reductions) == meet_copies);

// A try takes 0.3 microseconds: the load passes the caches. The second kernel needs few, unless ranks differ.
constexpr unsigned tries_of_first = 64, tries_of_second = 1u << 21;
constexpr unsigned most_blocks = 16;

unsigned number_of(ReduceOp op, Element element) {
  element = element_of_kernel(op, element);
  const auto row = std::find_if(std::begin(reductions), std::end(reductions),
                                [=](const auto& one) { return one.op == op && one.element == element; });
  return static_cast<unsigned>(row - std::begin(reductions));
}

Error find_meet(int device, device::Kernel* kernel) {
  return find_kernel(
      device, meet_images, 0, [](int) { return std::string("meet"); }, kernel);
}

}  // namespace

bool meet_available(int device) {
  device::Kernel kernel;
  return device::runtime() && find_meet(device, &kernel) == Error::none;
}

bool meets(ReduceOp op, Element element) {
  return number_of(op, element) != meet_copies;
}

Error launch_meet(int device, device::Stream stream, const Meet& meet, bool first, const Signal& signal) {
  if (!device::runtime()) return Error::not_initialized;
  const unsigned reduction = meet.reduces ? number_of(meet.op, meet.element) : unsigned{meet_copies};
  if (meet.ranks < 1 || meet.ranks > max_ranks || meet.block_bytes > meet_block_bytes(meet.slot_bytes) ||
      (meet.reduces && reduction == meet_copies))
    return Error::invalid_value;
  device::Kernel kernel;
  if (Error error = find_meet(device, &kernel); error != Error::none) return error;

  MeetBuffers buffers{};
  buffers.at[meet_input] = const_cast<void*>(meet.input);
  buffers.at[meet_result] = meet.result;
  buffers.at[meet_flag] = meet.flag;
  std::copy_n(meet.scratches, meet.ranks, buffers.at + meet_first_scratch);
  const uint64_t lines = (meet.block_bytes + line_data - 1) / line_data;
  const auto threads =
      static_cast<unsigned>(std::clamp<uint64_t>(lines, 32, threads_per_block) + 31) / 32 * 32;
  const auto grid =
      static_cast<unsigned>(std::clamp<uint64_t>((lines + threads - 1) / threads, 1, most_blocks));
  MeetWork work{};
  work.block_bytes = meet.block_bytes;
  work.input_step = meet.input_step;
  work.result_step = meet.result_step;
  work.lines = static_cast<unsigned>(meet.slot_bytes / line_bytes);
  work.me = static_cast<unsigned>(meet.me);
  work.ranks = static_cast<unsigned>(meet.ranks);
  work.gives_to = meet.input && (first || !meet.number) ? meet.gives_to : 0;
  work.takes_from = meet.result ? meet.takes_from : 0;
  work.reduction = reduction;
  work.tries = first || meet.number ? tries_of_first : tries_of_second;
  work.share = first ? 1 : exchange_units;
  work.rest = exchange_units - grid;
  work.first = first;
  work.number = meet.number;
  void* arguments[] = {&buffers, &work, const_cast<Signal*>(&signal)};
  return device::runtime()->launch(kernel, grid, threads, arguments, stream);
}

}  // namespace fairlead::kernels
