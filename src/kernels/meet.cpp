// SPDX-License-Identifier: Apache-2.0
//
// The device code of launch_meet(). A thread takes lines of 8 bytes: it stores its own to the slots of the
// others, and computes the result of the same bytes from what they have stored. So threads need nothing of
// each other, and a later kernel may repeat what the first has done: a rank's own bytes are in a slot, too,
// before the result overwrites them.

#define FAIRLEAD_PRIVATE_KERNELS
#include "kernels/arithmetic.h"
#include "kernels/meet_parameters.h"
#include "kernels/module.h"
#include "kernels/signal.h"

namespace fairlead::kernels {
namespace {

// Both words are stored, and loaded, at once where the GPU can; each is whole in any case.
#if defined(__NVPTX__)
FAIRLEAD_DEVICE_FUNCTION void store_line(Line* to, Line line) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(line.word[0]), "l"(line.word[1])
               : "memory");
}
FAIRLEAD_DEVICE_FUNCTION Line load_line(const Line* from) {
  Line line;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(line.word[0]), "=l"(line.word[1])
               : "l"(from)
               : "memory");
  return line;
}
#else
#if FAIRLEAD_ON_GPU
inline constexpr int storing = __ATOMIC_RELAXED, loading = __ATOMIC_RELAXED;
#else
inline constexpr int storing = __ATOMIC_RELEASE, loading = __ATOMIC_ACQUIRE;
#endif
FAIRLEAD_DEVICE_FUNCTION void store_line(Line* to, Line line) {
  __atomic_store_n(&to->word[0], line.word[0], storing);
  __atomic_store_n(&to->word[1], line.word[1], storing);
}
FAIRLEAD_DEVICE_FUNCTION Line load_line(const Line* from) {
  return {{__atomic_load_n(&from->word[0], loading), __atomic_load_n(&from->word[1], loading)}};
}
#endif

FAIRLEAD_DEVICE_FUNCTION Line line_of(unsigned long data, unsigned number) {
  const unsigned long high = static_cast<unsigned long>(number) << 32;
  return {{(data & 0xffffffffu) | high, data >> 32 | high}};
}
FAIRLEAD_DEVICE_FUNCTION bool has_come(Line line, unsigned number) {
  return line.word[0] >> 32 == number && line.word[1] >> 32 == number;
}
FAIRLEAD_DEVICE_FUNCTION unsigned long data_of(Line line) {
  return (line.word[0] & 0xffffffffu) | line.word[1] << 32;
}

// Up to 8 bytes of the program's, of any alignment.
template <class Word>
FAIRLEAD_DEVICE_FUNCTION unsigned long gather(const char* from, unsigned bytes) {
  unsigned long data = 0;
  for (unsigned at = 0; at < bytes; at += sizeof(Word))
    data |= static_cast<unsigned long>(kernel::load<Word>(from + at)) << 8 * at;
  return data;
}
template <class Word>
FAIRLEAD_DEVICE_FUNCTION void scatter(char* to, unsigned bytes, unsigned long data) {
  for (unsigned at = 0; at < bytes; at += sizeof(Word))
    kernel::store(to + at, static_cast<Word>(data >> 8 * at));
}
FAIRLEAD_DEVICE_FUNCTION unsigned long load_part(const char* from, unsigned bytes) {
  const unsigned long alignment = reinterpret_cast<unsigned long>(from) | bytes;
  if (alignment % 8 == 0) return kernel::load<unsigned long>(from);
  return alignment % 4 == 0 ? gather<unsigned>(from, bytes) : gather<unsigned char>(from, bytes);
}
FAIRLEAD_DEVICE_FUNCTION void store_part(char* to, unsigned bytes, unsigned long data) {
  const unsigned long alignment = reinterpret_cast<unsigned long>(to) | bytes;
  if (alignment % 8 == 0) return kernel::store(to, data);
  alignment % 4 == 0 ? scatter<unsigned>(to, bytes, data) : scatter<unsigned char>(to, bytes, data);
}

template <class Operation, class Type>
FAIRLEAD_DEVICE_FUNCTION unsigned long combine_lines(unsigned long a, unsigned long b) {
  struct Lanes {
    Type at[line_data / sizeof(Type)];
  };
  auto x = __builtin_bit_cast(Lanes, a), y = __builtin_bit_cast(Lanes, b);
  FAIRLEAD_UNROLL
  for (unsigned i = 0; i < line_data / sizeof(Type); ++i) x.at[i] = combine<Operation>(x.at[i], y.at[i]);
  return __builtin_bit_cast(unsigned long, x);
}
FAIRLEAD_DEVICE_FUNCTION unsigned long combined(unsigned reduction, unsigned long a, unsigned long b) {
  switch (reduction) {
#define FAIRLEAD_ROW(op, type) \
  case meet_##op##_##type:     \
    return combine_lines<operation::op, element::type>(a, b);
    FAIRLEAD_MEET_REDUCTIONS(FAIRLEAD_ROW)
#undef FAIRLEAD_ROW
    default:
      return b;
  }
}

FAIRLEAD_DEVICE_FUNCTION ExchangeHeader* header_of(const MeetBuffers& buffers, unsigned rank) {
  return static_cast<ExchangeHeader*>(buffers.at[meet_first_scratch + rank]);
}

// What rank `from` stores for rank `to`, in the scratch of the latter.
FAIRLEAD_DEVICE_FUNCTION Line* slot_of(const MeetBuffers& buffers, const MeetWork& work, unsigned number,
                                       unsigned from, unsigned to) {
  char* const scratch = static_cast<char*>(buffers.at[meet_first_scratch + to]) + exchange_header_bytes;
  return reinterpret_cast<Line*>(scratch) +
         static_cast<unsigned long>(number % 2 * work.ranks + from) * work.lines;
}

FAIRLEAD_DEVICE_FUNCTION unsigned bytes_of(const MeetWork& work, unsigned long line) {
  const unsigned long left = work.block_bytes - line * line_data;
  return left < line_data ? static_cast<unsigned>(left) : line_data;
}

FAIRLEAD_DEVICE_FUNCTION void give(const MeetBuffers& buffers, const MeetWork& work, unsigned number,
                                   unsigned long line) {
  const char* from = static_cast<const char*>(buffers.at[meet_input]) + line * line_data;
  const unsigned bytes = bytes_of(work, line);
  unsigned long data = load_part(from, bytes);
  FAIRLEAD_NO_UNROLL
  for (unsigned rank = 0; rank < work.ranks; ++rank) {
    if (!(work.gives_to >> rank & 1)) continue;
    if (work.input_step && rank) data = load_part(from + rank * work.input_step, bytes);
    store_line(slot_of(buffers, work, number, work.me, rank) + line, line_of(data, number));
  }
}

// False if something is missing after so many tries.
FAIRLEAD_DEVICE_FUNCTION bool take(const MeetBuffers& buffers, const MeetWork& work, unsigned number,
                                   unsigned long line, unsigned tries) {
  constexpr unsigned at_once = 4;  // more would be more code: each has all reductions
  char* const to = static_cast<char*>(buffers.at[meet_result]) + line * line_data;
  const unsigned bytes = bytes_of(work, line);
  const Line* const first = slot_of(buffers, work, number, 0, work.me) + line;
  unsigned long result = 0;
  bool any = false;
  FAIRLEAD_NO_UNROLL
  for (unsigned base = 0; base < work.ranks; base += at_once) {
    Line loaded[at_once];
    bool all = false;
    FAIRLEAD_NO_UNROLL
    for (unsigned i = 0; i < tries && !all; ++i) {
      all = true;
      FAIRLEAD_UNROLL
      for (unsigned k = 0; k < at_once; ++k)
        if (work.takes_from >> base >> k & 1)
          loaded[k] = load_line(first + static_cast<unsigned long>(base + k) * work.lines);
      FAIRLEAD_UNROLL
      for (unsigned k = 0; k < at_once; ++k)
        if (work.takes_from >> base >> k & 1) all = all && has_come(loaded[k], number);
    }
    if (!all) return false;
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < at_once; ++k) {
      if (!(work.takes_from >> base >> k & 1)) continue;
      const unsigned long data = data_of(loaded[k]);
      if (work.reduction == meet_copies)
        store_part(to + (base + k) * work.result_step, bytes, data);
      else
        result = any ? combined(work.reduction, result, data) : data;
      any = true;
    }
  }
  if (work.reduction != meet_copies && any) store_part(to, bytes, result);
  return true;
}

// This rank has stored what it gives, except for what is on its way, which its number shows.
FAIRLEAD_DEVICE_FUNCTION void tell_others(const MeetBuffers& buffers, const MeetWork& work) {
  const bool last = kernel::block_index() == kernel::grid_size() - 1;
  const unsigned amount = work.share + (last ? work.rest : 0);
  FAIRLEAD_NO_UNROLL
  for (unsigned rank = 0; rank < work.ranks; ++rank)
    if (rank != work.me) kernel::system_add(&header_of(buffers, rank)->given[work.me], amount);
}

// Have the waits been lifted, as MPI is over (StreamCollective::abandon())?
FAIRLEAD_DEVICE_FUNCTION bool is_over(const MeetBuffers& buffers, const MeetWork& work) {
  bool over = false;
  FAIRLEAD_NO_UNROLL
  for (unsigned rank = 0; rank < work.ranks; ++rank)
    over = over || kernel::load<unsigned>(&header_of(buffers, work.me)->given[rank]) >= waits_are_lifted / 2;
  return over;
}

// No block of this kernel reads the header any more when the last one is here.
FAIRLEAD_DEVICE_FUNCTION void end_call(const MeetBuffers& buffers, const MeetWork& work, unsigned number) {
  ExchangeHeader* const header = header_of(buffers, work.me);
  if (kernel::grid_size() > 1) {
    if (kernel::atomic_add(&header->counter, 1u) != kernel::grid_size() - 1) return;
    header->counter = 0;
  }
  FAIRLEAD_NO_UNROLL
  for (unsigned rank = 0; rank < work.ranks; ++rank)
    if (rank != work.me) kernel::system_add(&header->given[rank], 0 - work.share);
  header->late = 0;
  header->turn[0] = number;
  auto* const flag = static_cast<unsigned long*>(buffers.at[meet_flag]);
  if (flag) kernel::system_store(flag, static_cast<unsigned long>(number));
}

// The same for a call that the CPU waits for.
FAIRLEAD_DEVICE_FUNCTION void end_numbered(const MeetBuffers& buffers, const MeetWork& work,
                                           const Signal& signal) {
  unsigned* const late = &header_of(buffers, work.me)->late;
  if (kernel::grid_size() > 1) {
    fence_before(signal);
    if (kernel::atomic_add(signal.counter, 1u) != kernel::grid_size() - 1) return;
    *signal.counter = 0;
  }
  if (kernel::load<unsigned>(late)) {
    *late = 0;
    kernel::system_store(static_cast<unsigned long*>(buffers.at[meet_flag]),
                         static_cast<unsigned long>(work.number));
    kernel::system_fence();
  }
  fence_before(signal);
  kernel::system_store(signal.flag, signal.value);
}

}  // namespace
}  // namespace fairlead::kernels

FAIRLEAD_BOUNDED_KERNEL(fairlead::kernels::threads_per_block, meet,
                        (fairlead::kernels::MeetBuffers buffers, fairlead::kernels::MeetWork work,
                         fairlead::kernels::Signal signal)) {
  using namespace fairlead;
  using namespace fairlead::kernels;
  kernel::acquire_launch();
  ExchangeHeader* const header = header_of(buffers, work.me);
  // In a stream, the call after those that have ended. Its turn is theirs.
  const unsigned number =
      work.number ? work.number : kernel::load<unsigned>(&header->turn[work.first ? 0 : 1]) + 1;
  const unsigned long lines = (work.block_bytes + line_data - 1) / line_data;
  const unsigned long step = kernel::global_size(), mine = kernel::global_index();
  if (work.first) {
    for (unsigned long line = mine; work.gives_to && line < lines; line += step)
      give(buffers, work, number, line);
    if (!work.number) {
      kernel::block_barrier();
      if (kernel::is_last_thread()) tell_others(buffers, work);
    }
  }
  // What the second one in a stream misses never comes: a rank has passed other bytes than this one expects.
  const bool once = work.first || work.number;
  if (work.takes_from && (once || kernel::load<unsigned>(&header->late))) {
    const unsigned tries = !once && is_over(buffers, work) ? 1 : work.tries;
    bool all = true;
    for (unsigned long line = mine; line < lines && all; line += step)
      all = take(buffers, work, number, line, tries);
    if (!all && once) kernel::atomic_add(&header->late, 1u);
  }
  kernel::block_barrier();
  if (!kernel::is_last_thread()) return;
  if (work.number)
    end_numbered(buffers, work, signal);
  else if (!work.first)
    end_call(buffers, work, number);
  else if (kernel::block_index() == kernel::grid_size() - 1)
    header->turn[1] = number - 1;
}

FAIRLEAD_MODULE_IMAGES(meet_images)
