// SPDX-License-Identifier: Apache-2.0
//
// The device code of launch_reduce(). A thread takes a packet (a vector of 16 bytes, or one element), loads
// it from up to eight sources before it uses the first load, so that their latencies overlap, combines them
// in rank order, and stores the result to every target. No element is loaded after it was stored to, so that
// targets may be sources.
//
// Each row of modules.def is a module of its own, because the GPU driver compiles PTX when a module is first
// used, and takes tens of milliseconds for each kernel in it.

#pragma once

#include <fairlead/kernel.h>

#include "kernels/arithmetic.h"
#include "kernels/parameters.h"
#include "kernels/signal.h"

namespace fairlead::kernels {

// ---- Packets: how they are loaded, stored and combined ----------------------------------------------

using Words = kernel::detail::Word<vector_bytes>::Type;

template <bool first, class First, class Second>
struct Choose {
  using Is = First;
};
template <class First, class Second>
struct Choose<false, First, Second> {
  using Is = Second;
};

// Lanes shorter than a register are combined in registers.
template <class Lane>
using PartOf = typename Choose<(sizeof(Lane) < sizeof(unsigned)), unsigned, Lane>::Is;
template <class Lane>
struct Parts {
  PartOf<Lane> at[vector_bytes / sizeof(PartOf<Lane>)];
};

template <class Operation, class Lane>
FAIRLEAD_DEVICE_FUNCTION unsigned combine_in_word(unsigned a, unsigned b) {
  using Bits = typename kernel::detail::Word<sizeof(Lane)>::Type;
  unsigned result = 0;
  FAIRLEAD_UNROLL
  for (unsigned shift = 0; shift < 32; shift += 8 * sizeof(Lane)) {
    Lane lane = combine<Operation>(__builtin_bit_cast(Lane, static_cast<Bits>(a >> shift)),
                                   __builtin_bit_cast(Lane, static_cast<Bits>(b >> shift)));
    result |= static_cast<unsigned>(__builtin_bit_cast(Bits, lane)) << shift;
  }
  return result;
}

template <class Lane>
struct VectorPacket {
  using Value = Words;
  static FAIRLEAD_DEVICE_FUNCTION Value load(const char* address) { return kernel::load<Value>(address); }
  static FAIRLEAD_DEVICE_FUNCTION void store(char* address, Value value) { kernel::store(address, value); }
  template <class Operation>
  static FAIRLEAD_DEVICE_FUNCTION Value combined(Value a, Value b) {
    auto x = __builtin_bit_cast(Parts<Lane>, a), y = __builtin_bit_cast(Parts<Lane>, b);
    FAIRLEAD_UNROLL
    for (unsigned i = 0; i < sizeof x.at / sizeof *x.at; ++i) {
      if constexpr (sizeof(Lane) < sizeof *x.at)
        x.at[i] = combine_in_word<Operation, Lane>(x.at[i], y.at[i]);
      else
        x.at[i] = combine<Operation>(x.at[i], y.at[i]);
    }
    return __builtin_bit_cast(Words, x);
  }
};

// Loads one number: at once if it is aligned, else byte by byte.
template <bool aligned, class Number>
FAIRLEAD_DEVICE_FUNCTION Number load_number(const char* address) {
  if constexpr (aligned) {
    return kernel::load<Number>(address);
  } else {
    struct {
      unsigned char at[sizeof(Number)];
    } bytes;
    FAIRLEAD_UNROLL
    for (unsigned i = 0; i < sizeof(Number); ++i) bytes.at[i] = kernel::load<unsigned char>(address + i);
    return __builtin_bit_cast(Number, bytes);
  }
}

template <bool aligned, class Number>
FAIRLEAD_DEVICE_FUNCTION void store_number(char* address, Number number) {
  if constexpr (aligned) {
    kernel::store(address, number);
  } else {
    struct Bytes {
      unsigned char at[sizeof(Number)];
    };
    auto bytes = __builtin_bit_cast(Bytes, number);
    FAIRLEAD_UNROLL
    for (unsigned i = 0; i < sizeof(Number); ++i) kernel::store(address + i, bytes.at[i]);
  }
}

template <bool aligned, class Type>
struct ElementPacket {
  using Value = Type;
  static FAIRLEAD_DEVICE_FUNCTION Value load(const char* address) {
    return load_number<aligned, Type>(address);
  }
  static FAIRLEAD_DEVICE_FUNCTION void store(char* address, Value value) {
    store_number<aligned>(address, value);
  }
  template <class Operation>
  static FAIRLEAD_DEVICE_FUNCTION Value combined(Value a, Value b) {
    return combine<Operation>(a, b);
  }
};

// Loads and stores structs by members: structs are aligned as their members, and padding must not be written.
template <bool aligned, class Type, class First, class Second, unsigned second_at>
struct StructPacket {
  using Value = Type;
  static FAIRLEAD_DEVICE_FUNCTION Value load(const char* address) {
    return {load_number<aligned, First>(address), load_number<aligned, Second>(address + second_at)};
  }
  static FAIRLEAD_DEVICE_FUNCTION void store(char* address, Value value) {
    auto [first, second] = value;
    store_number<aligned>(address, first);
    store_number<aligned>(address + second_at, second);
  }
  template <class Operation>
  static FAIRLEAD_DEVICE_FUNCTION Value combined(Value a, Value b) {
    return combine<Operation>(a, b);
  }
};
template <bool aligned, class Part>
struct ElementPacket<aligned, Complex<Part>>
    : StructPacket<aligned, Complex<Part>, Part, Part, __builtin_offsetof(Complex<Part>, imaginary)> {};
template <bool aligned, class Number, class Index>
struct ElementPacket<aligned, Pair<Number, Index>>
    : StructPacket<aligned, Pair<Number, Index>, Number, Index,
                   __builtin_offsetof(Pair<Number, Index>, index)> {};

// Bits are combined in words of any width.
template <class Operation, class Type>
using LaneOf = typename Choose<Operation::bitwise, element::uint64, Type>::Is;

template <class Type>
inline constexpr bool has_vectors = true;
template <class Number, class Index>
inline constexpr bool has_vectors<Pair<Number, Index>> = false;

// ---- The loops --------------------------------------------------------------------------------------

// The number of loads of a thread that are in flight together.
inline constexpr unsigned loads_at_once = 8;

// Reduces a thread's vectors: every global_size()-th of those that are aligned in all buffers. Loads go
// through all sources of a vector, then of the next one, so that with few sources as many loads are in flight
// as with many.
template <class Operation, class Type>
FAIRLEAD_DEVICE_FUNCTION void reduce_vectors(const Buffers& from, unsigned long offset, const Buffers& to,
                                             const ReduceWork& work) {
  using Packet = VectorPacket<LaneOf<Operation, Type>>;
  const unsigned long step = vector_bytes * kernel::global_size();
  const unsigned long end = work.head * sizeof(Type) + vector_bytes * work.vectors;
  unsigned long load_at = work.head * sizeof(Type) + vector_bytes * kernel::global_index(), use_at = load_at;
  unsigned load_source = 0, use_source = 0;
  Words result{};
  while (use_at < end) {
    Words loaded[loads_at_once];
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < loads_at_once; ++k) {
      if (load_at < end)
        loaded[k] = Packet::load(static_cast<const char*>(from.at[load_source]) + offset + load_at);
      bool last = ++load_source == work.sources;
      load_source = last ? 0 : load_source;
      load_at += last ? step : 0;
    }
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < loads_at_once; ++k) {
      Words combined = Packet::template combined<Operation>(result, loaded[k]);
      result = use_source == 0 ? loaded[k] : combined;
      if (++use_source < work.sources) continue;
      FAIRLEAD_NO_UNROLL
      for (unsigned target = 0; use_at < end && target < work.targets; ++target)
        Packet::store(static_cast<char*>(to.at[target]) + use_at, result);
      use_source = 0;
      use_at += step;
    }
  }
}

// Reduces a thread's elements: those outside all vectors.
template <class Operation, class Type, class Packet, unsigned at_once>
FAIRLEAD_DEVICE_FUNCTION void reduce_elements(const Buffers& from, unsigned long offset, const Buffers& to,
                                              const ReduceWork& work, unsigned long skipped) {
  // Begins with the last thread: the first ones have the most vectors.
  unsigned long i = kernel::global_size() - 1 - kernel::global_index();
  for (; i < work.count - skipped; i += kernel::global_size()) {
    const unsigned long at = (i < work.head ? i : i + skipped) * sizeof(Type);
    Type result{};
    FAIRLEAD_NO_UNROLL
    for (unsigned source = 0; source < work.sources; source += at_once) {
      Type loaded[at_once];
      FAIRLEAD_UNROLL
      for (unsigned k = 0; k < at_once; ++k)
        if (source + k < work.sources)
          loaded[k] = Packet::load(static_cast<const char*>(from.at[source + k]) + offset + at);
      if (work.keeps_old && source == 0)
        Packet::store(static_cast<char*>(to.at[work.targets]) + at, loaded[0]);
      FAIRLEAD_UNROLL
      for (unsigned k = 0; k < at_once; ++k)
        if (source + k < work.sources)
          result = source + k == 0 ? loaded[k] : Packet::template combined<Operation>(result, loaded[k]);
    }
    FAIRLEAD_NO_UNROLL
    for (unsigned target = 0; target < work.targets; ++target)
      Packet::store(static_cast<char*>(to.at[target]) + at, result);
  }
}

// Sources begin `offset` bytes behind their addresses.
template <class Operation, class Type>
FAIRLEAD_DEVICE_FUNCTION void reduce(const Buffers& from, unsigned long offset, const Buffers& to,
                                     const ReduceWork& work) {
  unsigned long in_vectors = 0;
  if constexpr (has_vectors<Type>) {
    reduce_vectors<Operation, Type>(from, offset, to, work);
    in_vectors = work.vectors * (vector_bytes / sizeof(Type));
  }
  if (work.aligned)
    reduce_elements<Operation, Type, ElementPacket<true, Type>, loads_at_once>(from, offset, to, work,
                                                                               in_vectors);
  else
    reduce_elements<Operation, Type, ElementPacket<false, Type>, 1>(from, offset, to, work, in_vectors);
}

}  // namespace fairlead::kernels

// ---- The kernels of a module ------------------------------------------------------------------------

#define FAIRLEAD_REDUCE(op, type)                                                                          \
  FAIRLEAD_BOUNDED_KERNEL(                                                                                 \
      fairlead::kernels::threads_per_block, reduce_##op##_##type,                                          \
      (fairlead::kernels::Buffers from, fairlead::kernels::Buffers to, fairlead::kernels::ReduceWork work, \
       fairlead::kernels::Signal signal, fairlead::kernels::ExchangeWords words,                           \
       fairlead::kernels::ExchangeWork exchange)) {                                                        \
    using namespace fairlead::kernels;                                                                     \
    fairlead::kernel::acquire_launch();                                                                    \
    reduce<operation::op, element::type>(from, exchange_offset(words, exchange), to, work);                \
    signal_end(signal, words, exchange);                                                                   \
  }

#define FAIRLEAD_REDUCE_arithmetic(type) FAIRLEAD_REDUCE(sum, type) FAIRLEAD_REDUCE(prod, type)
#define FAIRLEAD_REDUCE_order(type) FAIRLEAD_REDUCE(min, type) FAIRLEAD_REDUCE(max, type)
#define FAIRLEAD_REDUCE_location(type) FAIRLEAD_REDUCE(minloc, type) FAIRLEAD_REDUCE(maxloc, type)
#define FAIRLEAD_REDUCE_logic(type) \
  FAIRLEAD_REDUCE(land, type) FAIRLEAD_REDUCE(lor, type) FAIRLEAD_REDUCE(lxor, type)
#define FAIRLEAD_REDUCE_bits(type) \
  FAIRLEAD_REDUCE(band, type) FAIRLEAD_REDUCE(bor, type) FAIRLEAD_REDUCE(bxor, type)
