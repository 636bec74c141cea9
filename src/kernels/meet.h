// SPDX-License-Identifier: Apache-2.0
//
// A small collective whose ranks meet in one kernel: 4 bytes of data travel with the number of the call in
// one store of 8 bytes, into slots in the memory of the other ranks, so that neither a fence nor another
// kernel is needed to know that they have come. (The "LL" protocol of NCCL.) The kernel stores this rank's
// blocks to the slots of the others, looks for theirs for a bounded time, some twenty microseconds, and
// writes the result. No kernel waits for one that may not run: the GPU may be full, or shared, and a rank
// late by any time.
//
// In a stream a call is this kernel, a wait of the stream for the words of all other ranks, and the kernel
// again. If all blocks came in time, the second has nothing to do but to count the call; if not, it does the
// work, when the stream's wait has shown that all ranks have stored theirs. The words and turns are those of
// an Exchange (reduce.h), so that calls of both kinds may follow each other.
//
// If the CPUs of all ranks have announced the call, it is this kernel alone. It says to the CPU if it has
// missed something, which then launches it again, as often as it takes. A rank launches the kernel of a call
// when all have announced it, and announces the next one when it has its result: so no slot is overwritten
// that somebody still reads.

#pragma once

#include <cstdint>

#include "device/runtime.h"
#include "kernels/meet_parameters.h"
#include "kernels/reduce.h"

namespace fairlead::kernels {

struct Meet {
  char* const* scratches =
      nullptr;  // of each rank, an ExchangeHeader at the beginning, as this GPU accesses them
  int me = 0, ranks = 1;
  uint64_t slot_bytes = 0;  // of a slot: for blocks of up to half as many bytes
  // The block for a rank begins `input_step` bytes behind that for the rank before, and of the result the
  // block of a rank likewise; 0: one block for all. Null: this rank gives, or gets, nothing.
  const void* input = nullptr;
  void* result = nullptr;
  uint64_t block_bytes = 0, input_step = 0, result_step = 0;
  uint32_t gives_to = 0, takes_from = 0;  // ranks, one bit for each
  // If the blocks are combined, in the order of the ranks: a reduction that meets() accepts.
  bool reduces = false;
  ReduceOp op{};
  Element element{};
  // Of a call that all CPUs have announced, the same on all ranks and none of the 2^32 before; 0: in a
  // stream.
  uint32_t number = 0;
  // Page-locked, as kernels address it; null: nobody asks. In a stream it gets the number of calls that have
  // ended; else the number of the call, before the end of a kernel that has missed something.
  uint64_t* flag = nullptr;
};

// What the slots of a rank take at most, and the longest block for which they have room among few ranks.
constexpr uint64_t meet_slots_at_most = 1 << 20, meet_longest_block = 64 << 10;
constexpr uint64_t meet_slot_bytes(int ranks) {
  const uint64_t fit = meet_slots_at_most / 2 / static_cast<uint64_t>(ranks) / line_bytes * line_bytes;
  return fit < 2 * meet_longest_block ? fit : 2 * meet_longest_block;
}

// What the two slots of a rank for each rank take, behind the header.
constexpr uint64_t meet_slots_bytes(int ranks, uint64_t slot_bytes) {
  return 2 * static_cast<uint64_t>(ranks) * slot_bytes;
}
constexpr uint64_t meet_block_bytes(uint64_t slot_bytes) {
  return slot_bytes / 2;
}

// Can the kernel run on this device? As copies_available() of reduce.h.
bool meet_available(int device);
bool meets(ReduceOp op, Element element);

// The first kernel of a call, or a later one. `signal` is for calls with a number. Error::invalid_value: the
// arguments do not fit.
device::Error launch_meet(int device, device::Stream stream, const Meet& meet, bool first,
                          const Signal& signal = {});

}  // namespace fairlead::kernels
