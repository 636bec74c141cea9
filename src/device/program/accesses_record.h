// SPDX-License-Identifier: Apache-2.0
//
// What the patches of accesses_patch.cpp write, and accesses.cpp reads: in memory of a device, an
// AccessRecord, then a window for each of the watched bytes, then a bit for each byte that is read, then a
// bit for each that is written. Compiled for the device, and for tests.

#pragma once

#if defined(__CUDA__)
#define FAIRLEAD_IN_PATCH __attribute__((device)) static
#else
#define FAIRLEAD_IN_PATCH inline
#endif

namespace fairlead::device::program {

// Bytes at addresses from begin to end. The word of their first bits, of which bit 0 stands for the address
// below begin that is a multiple of 32.
struct RecordedWindow {
  unsigned long begin, end, word;
};

struct AccessRecord {
  unsigned touched;  // has any bit been set?
  unsigned windows;
  unsigned long words;  // of either map
};

// 0: the kernel goes on. Threads of several blocks set bits of one word.
FAIRLEAD_IN_PATCH int record_access(void* data, unsigned long from, unsigned long bytes, bool reads,
                                    bool writes) {
  if (!data) return 0;
  auto* const record = static_cast<AccessRecord*>(data);
  const auto* const windows = reinterpret_cast<const RecordedWindow*>(record + 1);
  auto* const bits =
      const_cast<unsigned*>(reinterpret_cast<const volatile unsigned*>(windows + record->windows));
  unsigned first = 0;
  for (unsigned end = record->windows; first < end;) {
    const unsigned middle = (first + end) / 2;
    if (windows[middle].end > from)
      end = middle;
    else
      first = middle + 1;
  }
  for (; first < record->windows && windows[first].begin < from + bytes; ++first) {
    const RecordedWindow& window = windows[first];
    unsigned long at = from > window.begin ? from : window.begin;
    const unsigned long end = from + bytes < window.end ? from + bytes : window.end;
    while (at < end) {
      const unsigned bit = at % 32, count = end - at < 32 - bit ? end - at : 32 - bit;
      const unsigned mask = (count == 32 ? ~0u : (1u << count) - 1) << bit;
      unsigned* const word = bits + window.word + at / 32 - window.begin / 32;
      if (reads && (*static_cast<volatile unsigned*>(word) & mask) != mask)
        __atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
      if (writes && (*static_cast<volatile unsigned*>(word + record->words) & mask) != mask)
        __atomic_fetch_or(word + record->words, mask, __ATOMIC_RELAXED);
      at += count;
    }
    record->touched = 1;
  }
  return 0;
}

}  // namespace fairlead::device::program
