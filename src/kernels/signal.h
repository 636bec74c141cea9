// SPDX-License-Identifier: Apache-2.0
//
// How a kernel ends, in device code: it signals the CPU (end_signal.h), or the other ranks of a
// collective that runs in streams (Exchange in reduce.h).

#pragma once

#include <fairlead/kernel.h>

#include "kernels/parameters.h"

namespace fairlead::kernels {

// How far behind the start of each scratch this kernel's part of it begins.
FAIRLEAD_DEVICE_FUNCTION unsigned long exchange_offset(const ExchangeWords& words, const ExchangeWork& work) {
  if (!words.at[exchange_turn]) return 0;
  return kernel::load<unsigned>(words.at[exchange_turn]) % 2 ? work.half : 0;
}

FAIRLEAD_DEVICE_FUNCTION void fence_before(const Signal& signal) {
  signal.own_memory ? kernel::own_memory_fence() : kernel::system_fence();
}

// Every thread calls this last. The last block that arrives here has seen the fences of all others.
FAIRLEAD_DEVICE_FUNCTION void signal_end(const Signal& signal) {
  using namespace fairlead::kernel;
  if (!signal.flag) return;
  block_barrier();
  if (!is_last_thread()) return;
  if (grid_size() > 1) {
    fence_before(signal);
    if (atomic_add(signal.counter, 1u) != grid_size() - 1) return;
    *signal.counter = 0;
  }
  fence_before(signal);
  system_store(signal.flag, signal.value);
}

// The same for a kernel that may be part of an exchange. Fences take longer than all else that a small kernel
// does, so only a kernel that gives something to other ranks has one, in each block. One that takes stores
// the number of the next turn to the flag when its loads are over.
FAIRLEAD_DEVICE_FUNCTION void signal_end(const Signal& signal, const ExchangeWords& words,
                                         const ExchangeWork& work) {
  using namespace fairlead::kernel;
  if (!words.at[exchange_turn]) return signal_end(signal);
  block_barrier();
  if (!is_last_thread()) return;
  if (work.gives) system_fence();
  const bool last = block_index() == grid_size() - 1;
  const unsigned amount = work.share + (last ? work.rest : 0);
  FAIRLEAD_NO_UNROLL
  for (unsigned i = 0; i < work.words && amount; ++i)
    system_add(static_cast<unsigned*>(words.at[exchange_first_word + i]), amount);
  const unsigned next = load<unsigned>(words.at[exchange_turn]) + !work.gives;
  if (last) store(words.at[exchange_next_turn], next);
  if (!signal.flag) return;
  if (grid_size() > 1) {
    if (atomic_add(signal.counter, 1u) != grid_size() - 1) return;
    *signal.counter = 0;
  }
  system_store(signal.flag, static_cast<unsigned long>(next));
}

}  // namespace fairlead::kernels
