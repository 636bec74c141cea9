// SPDX-License-Identifier: Apache-2.0
//
// An asynchronous move of bytes between two buffers that this process can access: host memory, memory of its
// own devices, or a mapping of another process's memory. A copy engine or a kernel moves the bytes while the
// caller continues; where neither can, the move takes another path and is synchronous. A Transfer belongs to
// one thread at a time and must not change its address.

#pragma once

#include <sched.h>

#include "base/memory/host_buffer.h"
#include "base/system/processor.h"
#include "packing/move.h"

namespace fairlead::rma {

// The bytes of a layout, in the order in which they are transferred.
struct Buffer {
  packing::View view;
  int device = -1;         // whose copies and kernels can access it; -1: host memory
  bool by_blocks = false;  // kernels cannot access all of it
  bool by_kernel = false;  // copies of device memory must not write to it (Runtime::copies_may_write())

  uint64_t bytes() const { return view.bytes(); }
  bool contiguous() const { return view.contiguous(); }
  bool on_device() const { return device >= 0; }
  char* address() const { return static_cast<char*>(view.address()); }
};

// Host memory without gaps.
inline Buffer host_buffer(void* address, uint64_t bytes) {
  return {packing::View(address, bytes)};
}

class Transfer {
 public:
  // Moves `bytes` bytes, from offset `from_at` of `from` to offset `to_at` of `to`. A move that cannot run
  // asynchronously is complete on return.
  device::Error start(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at, uint64_t bytes);
  // Moves whole buffers; the move may start together with others (device::start_enqueued()).
  device::Error enqueue(const Buffer& to, const Buffer& from, uint64_t bytes);
  // none: complete, or never started; not_ready: in progress; any other value: it failed, possibly at its
  // start.
  device::Error poll();
  device::Error wait();

 private:
  template <class Start>
  device::Error begin(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at, uint64_t bytes,
                      const Start& start);
  device::Error fall_back();
  device::Error finish(device::Error error);

  Buffer to_, from_;
  uint64_t to_at_ = 0, from_at_ = 0, bytes_ = 0;
  bool moving_ = false;
  device::Error outcome_ = device::Error::none;
  packing::Move move_;
};

// Polls until the result is not not_ready. Yields the core after a few microseconds, because the simulated
// GPU and other ranks on this core need it.
template <class Poll>
device::Error wait_for(const Poll& poll) {
  constexpr int spin_rounds = 200;
  device::Error state;
  for (int round = 0; (state = poll()) == device::Error::not_ready; ++round) {
    if (round < spin_rounds)
      relax();
    else
      sched_yield();
  }
  return state;
}

// Moves the bytes and waits for the end.
device::Error transfer_now(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at,
                           uint64_t bytes);

}  // namespace fairlead::rma
