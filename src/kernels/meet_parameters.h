// SPDX-License-Identifier: Apache-2.0
//
// Parameters of the kernel in meet.cpp, as launch_meet.cpp makes them and device code reads them, and the
// words of a scratch.

#pragma once

#include <fairlead/kernel.h>

#include "kernels/end_signal.h"
#include "kernels/parameters.h"

namespace fairlead::kernels {

// At the beginning of each rank's scratch, zero at first.
struct ExchangeHeader {
  unsigned turn[2];                // as Exchange in reduce.h has it: both kernels have read the first of them
  unsigned counter;                // of the blocks of a kernel
  unsigned late;                   // threads of the first kernel that have found something missing
  unsigned given[reduce_buffers];  // by each rank
};
inline constexpr unsigned exchange_header_bytes = 256;
// In place of what ranks have given: no stream waits any more.
inline constexpr unsigned waits_are_lifted = 1u << 30;
static_assert(sizeof(ExchangeHeader) <= exchange_header_bytes);

// Two words of 8 bytes, each with 4 bytes of data and above them the number of the call.
struct Line {
  unsigned long word[2];
};
inline constexpr unsigned line_bytes = sizeof(Line), line_data = 8;

enum : unsigned { meet_input, meet_result, meet_flag, meet_first_scratch };
using MeetBuffers = kernel::Pointers<meet_first_scratch + reduce_buffers>;

struct MeetWork {
  unsigned long block_bytes, input_step, result_step;
  unsigned lines;  // of a slot
  unsigned me, ranks, gives_to, takes_from;
  unsigned reduction;  // one of those below, or meet_copies
  unsigned tries;
  unsigned share, rest;  // as ExchangeWork has them
  bool first;
  unsigned number;  // of the call, if the CPUs of the ranks have met; 0: the header has it
};

// The reductions, by the types of arithmetic.h: where signs make no difference only the unsigned ones.
#define FAIRLEAD_MEET_NUMBERS(row, op) \
  row(op, uint32) row(op, uint64) row(op, float16) row(op, bfloat16) row(op, float32) row(op, float64)
#define FAIRLEAD_MEET_REDUCTIONS(row)                                                             \
  FAIRLEAD_MEET_NUMBERS(row, sum)                                                                 \
  FAIRLEAD_MEET_NUMBERS(row, prod)                                                                \
  FAIRLEAD_MEET_NUMBERS(row, min)                                                                 \
  row(min, int32) row(min, int64) FAIRLEAD_MEET_NUMBERS(row, max) row(max, int32) row(max, int64) \
      row(land, uint32) row(land, uint64) row(lor, uint32) row(lor, uint64) row(band, uint32)     \
          row(band, uint64) row(bor, uint32) row(bor, uint64)

enum : unsigned {
#define FAIRLEAD_ROW(op, element) meet_##op##_##element,
  FAIRLEAD_MEET_REDUCTIONS(FAIRLEAD_ROW)
#undef FAIRLEAD_ROW
      meet_copies
};

}  // namespace fairlead::kernels
