// SPDX-License-Identifier: Apache-2.0
//
// A partitioned message that a kernel of its sender hands over to a kernel of its receiver, in rounds without
// end. The sender gives a partition, the receiver opens its buffer for it, and whoever comes second moves the
// bytes: a sender that is first leaves them in a bounce buffer in memory of the receiver's GPU. So no kernel
// waits for another one, and neither CPU takes part.
//
// Each thread does this for its share of a partition, by a word of its own, which is 0 before and after:
//
//   receiver   0 -> opened                      or finds it full:    bounce -> buffer, then 0
//   sender     0 -> full, behind the bounce     or finds it opened:  its bytes -> buffer, then 0
//
// Whoever has moved a share counts it. The last one of a partition tells the receiver that it has arrived,
// and the last one of the message tells the sender that it may begin the next round. The receiver must have
// seen all partitions of a round before it opens its buffer for another one. All words change between the
// same values in each round, so that graphs may replay it.

#pragma once

#include <cstdint>

#include "device/runtime.h"
#include "kernels/end_signal.h"
#include "kernels/handover/handover_parameters.h"

namespace fairlead::kernels {

// Of a whole message. The same on both sides.
struct HandOverShape {
  uint64_t bytes = 0;  // of a partition
  unsigned partitions = 0;
  // That move a partition, in both kernels.
  unsigned threads() const;
  // The receiver's area: words, zero at first, and behind them the bounce buffer.
  uint64_t words_bytes() const;
  uint64_t area_bytes() const { return words_bytes() + partitions * bounce_step(); }
  uint64_t bounce_step() const { return (bytes + handover_unit - 1) / handover_unit * handover_unit; }
  bool operator==(const HandOverShape&) const = default;
};

// What one kernel does. Addresses are those of the GPU that runs it.
struct HandOver {
  HandOverShape shape;
  unsigned first = 0, count = 0;  // partitions
  const void* from = nullptr;     // of the message; null: the receiver opens its buffer
  void* buffer = nullptr;         // the receiver's, for the message
  void* area = nullptr;           // likewise
  // Page-locked: each partition's becomes 1 when it has arrived, and `sent` when all have.
  uint32_t* arrived = nullptr;
  uint32_t* sent = nullptr;
  bool operator==(const HandOver&) const = default;
};

// Can the kernel run on this device? As copies_available() of reduce.h.
bool handover_available(int device);
// Both GPUs must have atomic operations on the memory of the receiver's.
device::Error launch_handover(int device, device::Stream stream, const HandOver& call,
                              const Signal& signal = {});

}  // namespace fairlead::kernels
