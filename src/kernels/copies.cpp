// SPDX-License-Identifier: Apache-2.0
//
// The device code of launch_copies() and launch_swap(). In launch_copies() each group of threads, a block or
// a part of the only one, moves a share of one item, so that all items are in progress at once: vectors of 16
// bytes if both sides of an item can be aligned to them together, else words of 4 bytes, else bytes.

#define FAIRLEAD_PRIVATE_KERNELS
#include "kernels/module.h"
#include "kernels/parameters.h"
#include "kernels/signal.h"

namespace fairlead::kernels {
namespace {

inline constexpr unsigned words_at_once = 8;

template <unsigned width>
FAIRLEAD_DEVICE_FUNCTION void copy_words(char* to, const char* from, unsigned long bytes, unsigned thread,
                                         unsigned threads) {
  using Word = typename kernel::detail::Word<width>::Type;
  unsigned long head = -reinterpret_cast<unsigned long>(to) % width;
  if (head > bytes) head = bytes;
  const unsigned long words = (bytes - head) / width, singles = bytes - words * width;
  for (unsigned long i = thread; i < words; i += words_at_once * threads) {
    Word loaded[words_at_once];
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < words_at_once; ++k)
      if (i + k * threads < words) loaded[k] = kernel::load<Word>(from + head + (i + k * threads) * width);
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < words_at_once; ++k)
      if (i + k * threads < words) kernel::store(to + head + (i + k * threads) * width, loaded[k]);
  }
  // Copies the bytes that are left at both ends, beginning with the last thread: the first ones have the most
  // words.
  for (unsigned long i = threads - 1 - thread; i < singles; i += threads) {
    unsigned long at = i < head ? i : i + words * width;
    kernel::store(to + at, kernel::load<unsigned char>(from + at));
  }
}

FAIRLEAD_DEVICE_FUNCTION void copy_piece(char* to, const char* from, unsigned long bytes, unsigned thread,
                                         unsigned threads) {
  unsigned long difference = reinterpret_cast<unsigned long>(to) - reinterpret_cast<unsigned long>(from);
  if (difference % vector_bytes == 0)
    copy_words<vector_bytes>(to, from, bytes, thread, threads);
  else if (difference % 4 == 0)
    copy_words<4>(to, from, bytes, thread, threads);
  else
    copy_words<1>(to, from, bytes, thread, threads);
}

// Swaps whole words, so that kernels of the program that read the target meanwhile see no partly written
// word.
template <class Word>
FAIRLEAD_DEVICE_FUNCTION void swap_words(const SwapBuffers& buffers, unsigned bytes) {
  constexpr unsigned at_most = swapped_bytes_at_most / sizeof(Word);
  const unsigned words = bytes / sizeof(Word);
  Word found[at_most] = {}, compare[at_most] = {}, wanted[at_most] = {};
  FAIRLEAD_UNROLL
  for (unsigned k = 0; k < at_most; ++k) {
    if (k >= words) continue;
    found[k] = kernel::load<Word>(static_cast<const char*>(buffers.at[swap_target]) + k * sizeof(Word));
    compare[k] = kernel::load<Word>(static_cast<const char*>(buffers.at[swap_compare]) + k * sizeof(Word));
    wanted[k] = kernel::load<Word>(static_cast<const char*>(buffers.at[swap_wanted]) + k * sizeof(Word));
  }
  bool equal = true;
  FAIRLEAD_UNROLL
  for (unsigned k = 0; k < at_most; ++k) equal = equal && (k >= words || found[k] == compare[k]);
  FAIRLEAD_UNROLL
  for (unsigned k = 0; k < at_most; ++k) {
    if (k >= words) continue;
    if (equal) kernel::store(static_cast<char*>(buffers.at[swap_target]) + k * sizeof(Word), wanted[k]);
    kernel::store(static_cast<char*>(buffers.at[swap_old]) + k * sizeof(Word), found[k]);
  }
}

}  // namespace
}  // namespace fairlead::kernels

FAIRLEAD_BOUNDED_KERNEL(fairlead::kernels::threads_per_block, copy_items,
                        (fairlead::kernels::CopyBuffers to, fairlead::kernels::CopyBuffers from,
                         fairlead::kernels::CopyWork work, fairlead::kernels::Signal signal,
                         fairlead::kernels::ExchangeWords words, fairlead::kernels::ExchangeWork exchange)) {
  using namespace fairlead;
  kernel::acquire_launch();
  const unsigned long offset = kernels::exchange_offset(words, exchange);
  const unsigned groups_of_block = kernel::block_size() / work.threads;
  const unsigned group = kernel::block_index() * groups_of_block + kernel::thread_index() / work.threads;
  if (group < work.groups) {
    unsigned item = 0;
    while (group >= work.ends[item]) ++item;
    const unsigned long number = group - (item ? work.ends[item - 1] : 0);
    const unsigned long first = number * work.share, bytes = work.bytes[item];
    const unsigned long last = first + work.share < bytes ? first + work.share : bytes;
    kernels::copy_piece(static_cast<char*>(to.at[item]) + first + (exchange.gives ? offset : 0),
                        static_cast<const char*>(from.at[item]) + first + (exchange.gives ? 0 : offset),
                        last - first, kernel::thread_index() % work.threads, work.threads);
  }
  kernels::signal_end(signal, words, exchange);
}

// Runs in one thread.
FAIRLEAD_BOUNDED_KERNEL(fairlead::kernels::threads_per_block, swap_if_equal,
                        (fairlead::kernels::SwapBuffers buffers, unsigned bytes,
                         fairlead::kernels::Signal signal)) {
  using namespace fairlead;
  using namespace fairlead::kernels;
  kernel::acquire_launch();
  unsigned long alignment = bytes;
  FAIRLEAD_UNROLL
  for (unsigned k = 0; k < swap_buffers; ++k) alignment |= reinterpret_cast<unsigned long>(buffers.at[k]);
  if (alignment % 8 == 0)
    swap_words<unsigned long>(buffers, bytes);
  else if (alignment % 4 == 0)
    swap_words<unsigned>(buffers, bytes);
  else
    swap_words<unsigned char>(buffers, bytes);
  signal_end(signal);
}

FAIRLEAD_MODULE_IMAGES(copies)
