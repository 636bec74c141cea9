// SPDX-License-Identifier: Apache-2.0
//
// Moves a range of bytes between buffers of any layout while the caller continues: by a copy engine if both
// sides have no gaps, else by a kernel. Like device::Copy, a Move belongs to one thread at a time, and its
// address must not change.

#pragma once

#include <algorithm>
#include <iterator>

#include "base/memory/host_buffer.h"
#include "base/shortage.h"
#include "device/copies/copy.h"
#include "kernels/kernel_run.h"
#include "packing/plan.h"

namespace fairlead::packing {

class Move {
 public:
  // Can buffers with gaps be moved on this device now? Loads the kernels, but not while the device is busy.
  static bool possible(int device);

  // `device` runs the move and can access both buffers. A move between a buffer with gaps and ordinary host
  // memory, which kernels cannot access, completes before start() returns.
  device::Error start(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                      uint64_t bytes);
  // The same to memory that copies of device memory must not write to (Runtime::copies_may_write()): by a
  // kernel, or where none runs, through host memory before the function returns.
  device::Error start_by_kernel(int device, const View& to, uint64_t to_at, const View& from,
                                uint64_t from_at, uint64_t bytes);
  // Without gaps, the move joins a batch as in device::Copy::enqueue().
  device::Error enqueue(int device, const View& to, const View& from, uint64_t bytes);
  void start_now() { copy_.start_now(); }  // as device::Copy::start_now()
  // none: complete, or never started; not_ready; otherwise the move failed, possibly at its start.
  device::Error poll();
  // not_supported: there is no memory for the blocks now.
  device::Error wait();

 private:
  device::Error launch(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                       uint64_t bytes);
  device::Error launch();

  // Kept here so that the block lists outlive the kernel.
  View to_, from_;
  uint64_t to_at_ = 0, from_at_ = 0, bytes_ = 0;
  int device_ = -1;
  bool waits_ = false;        // for what its kernel needs,
  bool lacks_table_ = false;  // memory for the blocks,
  Shortage shortage_;         // which a stream that waits for this move would keep away
  device::Copy copy_;
  kernels::KernelRun run_;
};

// Runs a move and waits for it.
device::Error move_now(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                       uint64_t bytes);
// The same between device memory and host memory of any kind: by kernels through page-locked memory or, if
// either is unavailable, by one copy for each block.
device::Error copy_out(int device, void* to, const View& from, uint64_t from_at, uint64_t bytes);
device::Error copy_in(int device, const View& to, uint64_t to_at, const void* from, uint64_t bytes);
// By one copy for each block, for buffers in memory that no single device can access as a whole.
device::Error copy_out_by_blocks(int device, void* to, const View& from, uint64_t from_at, uint64_t bytes);
device::Error copy_in_by_blocks(int device, const View& to, uint64_t to_at, const void* from, uint64_t bytes);

// Calls step(at, memory, bytes) for one piece of a move after the other, with host memory to take the piece.
inline constexpr uint64_t longest_piece = uint64_t{4} << 20;
template <class Step>
device::Error by_pieces(uint64_t bytes, uint64_t longest, const Step& step) {
  const HostBuffer memory(std::min(bytes, longest));
  if (!memory.data()) return device::Error::out_of_memory;
  device::Error error = device::Error::none;
  for (uint64_t at = 0; at < bytes && error == device::Error::none; at += longest)
    error = step(at, static_cast<void*>(memory.data()), std::min(bytes - at, longest));
  return error;
}
// With several pieces under way, so that a step of one overlaps another step of the next: calls
// begin(slot, at, length) for the pieces in their order, and end(slot, at, length) for each in the same
// order, when all slots are in use or all pieces have begun. Ends as soon as one of these returns false.
template <class Slots, class Begin, class End>
void pass_in_pieces(Slots& slots, uint64_t bytes, uint64_t longest, const Begin& begin, const End& end) {
  bool goes_on = true;
  for (uint64_t begun = 0, ended = 0; ended < bytes && goes_on;) {
    const bool begins = begun < bytes && begun - ended < longest * std::size(slots);
    uint64_t& at = begins ? begun : ended;
    auto& slot = slots[at / longest % std::size(slots)];
    const uint64_t length = std::min(bytes - at, longest);
    goes_on = begins ? begin(slot, at, length) : end(slot, at, length);
    at += length;
  }
}

}  // namespace fairlead::packing
