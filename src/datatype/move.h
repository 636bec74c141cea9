// SPDX-License-Identifier: Apache-2.0
//
// A move of a range of bytes between buffers of any layout, while the caller goes on: by a copy engine where
// both sides have no gaps, else by a kernel. As device::Copy, it belongs to one thread at a time and stays
// where it is.

#pragma once

#include "datatype/plan.h"
#include "device/copy.h"
#include "kernels/kernel_run.h"

namespace fairlead::datatype {

class Move {
 public:
  // Can buffers with gaps be moved on this device now? Loads the kernels, but not while the device is busy.
  static bool possible(int device);

  // `device` runs it and reaches both buffers. What moves between a buffer with gaps and ordinary host
  // memory, which kernels do not reach, is waited for.
  device::Error start(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                      uint64_t bytes);
  // Without gaps, it joins others as device::Copy::enqueue() does.
  device::Error enqueue(int device, const View& to, const View& from, uint64_t bytes);
  // none: arrived (or never started); not_ready; else it failed, also at its start.
  device::Error poll();
  device::Error wait();

 private:
  device::Error launch();

  // The lists of blocks outlive the kernel.
  View to_, from_;
  uint64_t to_at_ = 0, from_at_ = 0, bytes_ = 0;
  int device_ = -1;
  bool waits_ = false;  // for another kernel to end
  device::Copy copy_;
  kernels::KernelRun run_;
};

// A move that is waited for.
device::Error move_now(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                       uint64_t bytes);
// The same between device memory and host memory of any kind: by kernels, through page-locked memory, or,
// where there are none of either, by one copy for each block.
device::Error copy_out(int device, void* to, const View& from, uint64_t from_at, uint64_t bytes);
device::Error copy_in(int device, const View& to, uint64_t to_at, const void* from, uint64_t bytes);
// By one copy for each block: it may lie in memory that no kernel of one device reaches as a whole.
device::Error copy_out_by_blocks(int device, void* to, const View& from, uint64_t from_at, uint64_t bytes);
device::Error copy_in_by_blocks(int device, const View& to, uint64_t to_at, const void* from, uint64_t bytes);

}  // namespace fairlead::datatype
