// SPDX-License-Identifier: Apache-2.0
//
// Parameters of the kernel in handover.cpp, as launch_handover.cpp makes them and device code reads them.

#pragma once

#include <fairlead/kernel.h>

namespace fairlead::kernels {

// A thread's share are the units of a partition, counted from its beginning, whose numbers are that of the
// thread modulo the number of threads.
inline constexpr unsigned handover_unit = 16;

// `words` is the first partition's of the message; so are `counts`, behind which is that of the message, and
// `arrived`. The other ones are those of the first partition of the launch.
enum : unsigned {
  handover_from,
  handover_bounce,
  handover_buffer,
  handover_words,
  handover_counts,
  handover_arrived,
  handover_sent,
  handover_buffers
};
using HandOverBuffers = kernel::Pointers<handover_buffers>;

struct HandOverWork {
  unsigned long bytes, bounce_step;  // of a partition
  unsigned threads;                  // of a partition, a multiple of those of a block
  unsigned first, partitions;        // of the launch, and in the message
  bool gives;
};

}  // namespace fairlead::kernels
