// SPDX-License-Identifier: Apache-2.0
//
// A small collective in a stream whose ranks meet in one kernel: 4 bytes of data travel with the number of
// the call in one store of 8 bytes, into slots in the memory of the other ranks, so that neither a fence nor
// another kernel is needed to know that they have come. (The "LL" protocol of NCCL.)
//
// A call is a kernel, a wait of the stream for the words of all other ranks, and the same kernel again. The
// first stores this rank's blocks to the slots of the others and looks for theirs for a bounded time, some
// twenty microseconds. If all come, it writes the result, and the second has nothing to do but to count the
// call; if not, the second does the work, when the stream's wait has shown that all ranks have stored theirs.
// So no kernel waits for one that may not run: the GPU may be full, or shared, and a rank late by any time.
//
// The words and turns are those of an Exchange (reduce.h), so that calls of both kinds may follow each other.

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
  uint64_t* flag = nullptr;  // page-locked: gets the number of calls that have ended; null: nobody asks
};

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

// The first of both kernels, or the second. Error::invalid_value: the arguments do not fit.
device::Error launch_meet(int device, device::Stream stream, const Meet& meet, bool first);

}  // namespace fairlead::kernels
