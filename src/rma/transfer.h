// SPDX-License-Identifier: Apache-2.0
//
// A move of bytes between two buffers that this process reaches: host memory, its own devices' memory, or a
// mapping of another process's. Goes on while the caller does where a copy engine or a kernel can do it, and
// takes whatever other way there is where they cannot. Belongs to one thread at a time and stays where it is.

#pragma once

#include <sched.h>

#include "base/host_buffer.h"
#include "datatype/move.h"

namespace fairlead::rma {

// Bytes in the order in which they travel.
struct Buffer {
  datatype::View view;
  int device = -1;         // whose copies and kernels reach it; -1: host memory
  bool by_blocks = false;  // no kernel reaches all of it

  uint64_t bytes() const { return view.bytes(); }
  bool contiguous() const { return view.contiguous(); }
  bool on_device() const { return device >= 0; }
  char* address() const { return static_cast<char*>(view.address()); }
};

// Host memory without gaps.
inline Buffer host_buffer(void* address, uint64_t bytes) {
  return {datatype::View(address, bytes)};
}

class Transfer {
 public:
  // `bytes` bytes, from `from_at` on in the one and `to_at` in the other. What cannot go on by itself is over
  // when this returns.
  device::Error start(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at, uint64_t bytes);
  // The same of whole buffers, which may start with others (device::start_enqueued()).
  device::Error enqueue(const Buffer& to, const Buffer& from, uint64_t bytes);
  // none: arrived (or never started); not_ready; else it failed, also at its start.
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
  datatype::Move move_;
};

// Polls until it is ready. Leaves the core to others after a few microseconds: the simulated GPU, and ranks
// that share it, need it.
template <class Poll>
device::Error wait_for(const Poll& poll) {
  constexpr int spin_rounds = 200;
  device::Error state;
  for (int round = 0; (state = poll()) == device::Error::not_ready; ++round) {
    if (round < spin_rounds)
      __builtin_ia32_pause();
    else
      sched_yield();
  }
  return state;
}

// A move that is waited for.
device::Error transfer_now(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at,
                           uint64_t bytes);

}  // namespace fairlead::rma
