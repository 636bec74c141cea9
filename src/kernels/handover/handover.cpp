// SPDX-License-Identifier: Apache-2.0
//
// The device code of launch_handover(). Threads need nothing of each other but to be counted.

#define FAIRLEAD_PRIVATE_KERNELS
#include "kernels/handover/handover_parameters.h"
#include "kernels/module.h"
#include "kernels/parameters.h"
#include "kernels/signal.h"

namespace fairlead::kernels {
namespace {

// Of the word of a share.
inline constexpr unsigned handover_none = 0, handover_opened = 1, handover_full = 2;

// Words that GPUs change, in memory of one of them, and those that streams and CPUs read.
#if defined(__NVPTX__)
FAIRLEAD_DEVICE_FUNCTION unsigned load_word(const unsigned* word) {
  unsigned value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
FAIRLEAD_DEVICE_FUNCTION void store_word(unsigned* word, unsigned value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
FAIRLEAD_DEVICE_FUNCTION unsigned replace_none(unsigned* word, unsigned value) {
  unsigned old;
  asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], 0, %2;"
               : "=r"(old)
               : "l"(word), "r"(value)
               : "memory");
  return old;
}
FAIRLEAD_DEVICE_FUNCTION unsigned count_up(unsigned* word, unsigned more) {
  unsigned old;
  asm volatile("atom.relaxed.sys.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(more) : "memory");
  return old;
}
// How many shares this thread has to count: the last thread those of its block, because thousands of
// additions to one word of another GPU take tens of microseconds.
FAIRLEAD_DEVICE_FUNCTION unsigned to_count(bool done) {
  const int all = __nvvm_bar0_popc(done);
  return kernel::is_last_thread() ? static_cast<unsigned>(all) : 0;
}
#else
#if FAIRLEAD_ON_GPU
inline constexpr int storing = __ATOMIC_RELAXED, loading = __ATOMIC_RELAXED, changing = __ATOMIC_RELAXED;
#else
inline constexpr int storing = __ATOMIC_RELEASE, loading = __ATOMIC_ACQUIRE, changing = __ATOMIC_ACQ_REL;
#endif
FAIRLEAD_DEVICE_FUNCTION unsigned load_word(const unsigned* word) {
  return __atomic_load_n(word, loading);
}
FAIRLEAD_DEVICE_FUNCTION void store_word(unsigned* word, unsigned value) {
  __atomic_store_n(word, value, storing);
}
FAIRLEAD_DEVICE_FUNCTION unsigned replace_none(unsigned* word, unsigned value) {
  unsigned old = handover_none;
  __atomic_compare_exchange_n(word, &old, value, false, changing, loading);
  return old;
}
FAIRLEAD_DEVICE_FUNCTION unsigned count_up(unsigned* word, unsigned more) {
  return __atomic_fetch_add(word, more, changing);
}
FAIRLEAD_DEVICE_FUNCTION unsigned to_count(bool done) {
  return done ? 1 : 0;
}
#endif

template <class Word, unsigned units_at_once>
FAIRLEAD_DEVICE_FUNCTION void move_units(char* to, const char* from, unsigned long units, unsigned thread,
                                         unsigned threads) {
  constexpr unsigned words = handover_unit / sizeof(Word);
  for (unsigned long i = thread; i < units; i += units_at_once * threads) {
    Word loaded[units_at_once * words];
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < units_at_once * words; ++k) {
      const unsigned long unit = i + k / words * threads;
      if (unit < units)
        loaded[k] = kernel::load<Word>(from + unit * handover_unit + k % words * sizeof(Word));
    }
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < units_at_once * words; ++k) {
      const unsigned long unit = i + k / words * threads;
      if (unit < units) kernel::store(to + unit * handover_unit + k % words * sizeof(Word), loaded[k]);
    }
  }
}

// Moves the share of a thread.
FAIRLEAD_DEVICE_FUNCTION void move_share(char* to, const char* from, unsigned long bytes, unsigned thread,
                                         unsigned threads) {
  const unsigned long units = bytes / handover_unit;
  const unsigned long alignment = reinterpret_cast<unsigned long>(to) | reinterpret_cast<unsigned long>(from);
  if (alignment % 16 == 0)
    move_units<kernel::detail::Word<16>::Type, 8>(to, from, units, thread, threads);
  else if (alignment % 4 == 0)
    move_units<unsigned, 4>(to, from, units, thread, threads);
  else
    move_units<unsigned char, 1>(to, from, units, thread, threads);
  if (thread != units % threads) return;
  for (unsigned long at = units * handover_unit; at < bytes; ++at)
    kernel::store(to + at, kernel::load<unsigned char>(from + at));
}

FAIRLEAD_DEVICE_FUNCTION char* part_of(const HandOverBuffers& buffers, unsigned which, unsigned long at) {
  return static_cast<char*>(buffers.at[which]) + at;
}

// The state of the share's word. `flag` was 1 at the end of the round before, and this rank's stream or CPU
// has cleared it. A store of 1 by the other GPU could overtake that 0 on its way to the memory of the host,
// and be lost: so the first thread of a partition, without whose share nobody stores 1, sees the 0 first. If
// a thread of each block looks, that takes ten microseconds.
FAIRLEAD_DEVICE_FUNCTION unsigned load_behind_clear(const unsigned* word, const void* flag, unsigned thread) {
  constexpr int tries = 1000;
  const auto* const cleared = static_cast<const unsigned*>(flag);
  unsigned seen = thread == 0 ? load_word(cleared) : 0;
  const unsigned state = load_word(word);
  for (int i = 0; seen == 1 && i < tries; ++i) seen = load_word(cleared);
  return state;
}

// Has this thread moved its share to the buffer? `part`: the partition, of those of the launch.
FAIRLEAD_DEVICE_FUNCTION bool give(const HandOverBuffers& buffers, const HandOverWork& work, unsigned* word,
                                   unsigned part, unsigned thread) {
  const char* const from = part_of(buffers, handover_from, part * work.bytes);
  char* const buffer = part_of(buffers, handover_buffer, part * work.bytes);
  if (load_behind_clear(word, buffers.at[handover_sent], thread) == handover_none) {
    move_share(part_of(buffers, handover_bounce, part * work.bounce_step), from, work.bytes, thread,
               work.threads);
    kernel::system_fence();
    if (replace_none(word, handover_full) == handover_none) return false;
  }
  // What the receiver did before it opened the buffer comes before these stores.
  kernel::system_fence();
  move_share(buffer, from, work.bytes, thread, work.threads);
  return true;
}

FAIRLEAD_DEVICE_FUNCTION bool open(const HandOverBuffers& buffers, const HandOverWork& work, unsigned* word,
                                   unsigned part, unsigned thread) {
  const auto* const arrived = static_cast<const unsigned*>(buffers.at[handover_arrived]) + work.first + part;
  if (load_behind_clear(word, arrived, thread) == handover_none) {
    if (thread == 0) kernel::system_fence();  // between the 0 and the sender's 1
    if (replace_none(word, handover_opened) == handover_none) return false;
  }
  kernel::system_fence();
  move_share(part_of(buffers, handover_buffer, part * work.bytes),
             part_of(buffers, handover_bounce, part * work.bounce_step), work.bytes, thread, work.threads);
  return true;
}

// `shares` of the partition have been moved. Each atomic operation on the other GPU's memory, and each fence
// behind one, takes a microsecond, so a block that has moved the whole message makes none.
FAIRLEAD_DEVICE_FUNCTION void count_shares(const HandOverBuffers& buffers, const HandOverWork& work,
                                           unsigned partition, unsigned shares) {
  kernel::system_fence();
  auto* const counts = static_cast<unsigned*>(buffers.at[handover_counts]);
  if (shares != work.threads) {
    if (count_up(counts + partition, shares) + shares != work.threads) return;
    store_word(counts + partition, 0);
    kernel::system_fence();
  }
  bool all = work.partitions == 1;
  if (!all && count_up(counts + work.partitions, 1) == work.partitions - 1) {
    store_word(counts + work.partitions, 0);
    // Behind what all others did with their words and the bounce buffer, which the sender may use again then.
    kernel::system_fence();
    all = true;
  }
  if (all) store_word(static_cast<unsigned*>(buffers.at[handover_sent]), 1);
  store_word(static_cast<unsigned*>(buffers.at[handover_arrived]) + partition, 1);
}

}  // namespace
}  // namespace fairlead::kernels

FAIRLEAD_BOUNDED_KERNEL(fairlead::kernels::threads_per_block, hand_over,
                        (fairlead::kernels::HandOverBuffers buffers, fairlead::kernels::HandOverWork work,
                         fairlead::kernels::Signal signal)) {
  using namespace fairlead;
  using namespace fairlead::kernels;
  kernel::acquire_launch();
  const unsigned blocks = work.threads / kernel::block_size();
  const unsigned part = kernel::block_index() / blocks, partition = work.first + part;
  const unsigned thread = kernel::block_index() % blocks * kernel::block_size() + kernel::thread_index();
  unsigned* const word =
      static_cast<unsigned*>(buffers.at[handover_words]) + partition * work.threads + thread;
  const bool moved =
      work.gives ? give(buffers, work, word, part, thread) : open(buffers, work, word, part, thread);
  if (moved) store_word(word, handover_none);
  if (const unsigned shares = to_count(moved)) count_shares(buffers, work, partition, shares);
  signal_end(signal);
}

FAIRLEAD_MODULE_IMAGES(handover_images)
