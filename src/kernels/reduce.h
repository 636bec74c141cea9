// SPDX-License-Identifier: Apache-2.0
//
// GPU work of a collective: one kernel reduces a slice of every rank's buffer, or moves many pieces at once.
// No kernel waits for another one. When all bytes that a kernel writes are visible to every processor of the
// node, it stores a value to a flag that CPUs poll.
//
// The MPI standard (4.1, sections 6.9.2 and 6.9.4) defines which operations work on which elements;
// docs/reference/reductions.md lists them. Elements are named by their machine type: a caller maps MPI_LONG
// to int64, MPI_DOUBLE_PRECISION to float64, and so on. Sizes and layouts are those of C on 64-bit Linux.
//
// All functions are safe to call from any thread and return without waiting for the device.

#pragma once

#include <cstddef>
#include <cstdint>

#include "device/runtime.h"
#include "kernels/end_signal.h"

namespace fairlead::kernels {

enum class ReduceOp : uint8_t {
  sum,
  prod,
  min,
  max,
  land,
  lor,
  lxor,
  band,
  bor,
  bxor,
  minloc,
  maxloc,
  replace,
};

enum class Element : uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  byte,  // MPI_BYTE: bits only
  float16,
  bfloat16,
  float32,
  float64,
  complex_float,
  complex_double,
  boolean,   // bool of C and C++
  logical8,  // LOGICAL of Fortran, by its size: zero is false, and true is stored as 1
  logical16,
  logical32,
  logical64,
  float_int,  // struct {float value; int index;}; padding is never written
  double_int,
  long_int,
  int_int,
  short_int,
  float_float,
  double_double,
};

enum class ElementFamily : uint8_t { integer, byte, floating, complex, logical, pair };

struct ElementTraits {
  Element element;
  const char* name;
  size_t bytes;  // from one to the next
  size_t alignment;
  ElementFamily family;
};

// In the order of Element.
inline constexpr ElementTraits elements[] = {
    {Element::int8, "int8", 1, 1, ElementFamily::integer},
    {Element::uint8, "uint8", 1, 1, ElementFamily::integer},
    {Element::int16, "int16", 2, 2, ElementFamily::integer},
    {Element::uint16, "uint16", 2, 2, ElementFamily::integer},
    {Element::int32, "int32", 4, 4, ElementFamily::integer},
    {Element::uint32, "uint32", 4, 4, ElementFamily::integer},
    {Element::int64, "int64", 8, 8, ElementFamily::integer},
    {Element::uint64, "uint64", 8, 8, ElementFamily::integer},
    {Element::byte, "byte", 1, 1, ElementFamily::byte},
    {Element::float16, "float16", 2, 2, ElementFamily::floating},
    {Element::bfloat16, "bfloat16", 2, 2, ElementFamily::floating},
    {Element::float32, "float32", 4, 4, ElementFamily::floating},
    {Element::float64, "float64", 8, 8, ElementFamily::floating},
    {Element::complex_float, "complex_float", 8, 4, ElementFamily::complex},
    {Element::complex_double, "complex_double", 16, 8, ElementFamily::complex},
    {Element::boolean, "boolean", 1, 1, ElementFamily::logical},
    {Element::logical8, "logical8", 1, 1, ElementFamily::logical},
    {Element::logical16, "logical16", 2, 2, ElementFamily::logical},
    {Element::logical32, "logical32", 4, 4, ElementFamily::logical},
    {Element::logical64, "logical64", 8, 8, ElementFamily::logical},
    {Element::float_int, "float_int", 8, 4, ElementFamily::pair},
    {Element::double_int, "double_int", 16, 8, ElementFamily::pair},
    {Element::long_int, "long_int", 16, 8, ElementFamily::pair},
    {Element::int_int, "int_int", 8, 4, ElementFamily::pair},
    {Element::short_int, "short_int", 8, 4, ElementFamily::pair},
    {Element::float_float, "float_float", 8, 4, ElementFamily::pair},
    {Element::double_double, "double_double", 16, 8, ElementFamily::pair},
};

inline constexpr const char* op_names[] = {"sum",  "prod", "min",  "max",    "land",   "lor",    "lxor",
                                           "band", "bor",  "bxor", "minloc", "maxloc", "replace"};

inline constexpr size_t element_count = sizeof elements / sizeof *elements;
inline constexpr size_t op_count = sizeof op_names / sizeof *op_names;

constexpr const ElementTraits& traits_of(Element element) {
  return elements[static_cast<size_t>(element)];
}
constexpr size_t element_bytes(Element element) {
  return traits_of(element).bytes;
}
constexpr const char* to_string(Element element) {
  return traits_of(element).name;
}
constexpr const char* to_string(ReduceOp op) {
  return op_names[static_cast<size_t>(op)];
}

constexpr bool has_kernel(ReduceOp op, Element element) {
  ElementFamily family = traits_of(element).family;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
      return family == ElementFamily::integer || family == ElementFamily::floating ||
             family == ElementFamily::complex;
    case ReduceOp::min:
    case ReduceOp::max:
      return family == ElementFamily::integer || family == ElementFamily::floating;
    case ReduceOp::land:
    case ReduceOp::lor:
    case ReduceOp::lxor:
      return family == ElementFamily::integer || family == ElementFamily::logical;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return family == ElementFamily::integer || family == ElementFamily::byte;
    case ReduceOp::minloc:
    case ReduceOp::maxloc:
      return family == ElementFamily::pair;
    case ReduceOp::replace:
      return true;
  }
  return false;
}

inline constexpr int max_ranks = 32;
inline constexpr size_t max_copies = 64;
inline constexpr size_t vector_alignment = 16;  // that buffers have in common, for kernels to be fast

// A kernel of launch_reduce() or launch_copies() that is part of a collective in streams. Two of them make a
// call: the first gives this rank's input to the others, the second takes those of all; the stream waits in
// between. All pointers are to device memory.
//
// - Of the targets of the first, and the sources of the second, there are two, `half` bytes apart, which the
//   calls use in turn. The number of the call is in device memory, so that a graph may contain the kernels.
//   The first reads it from `turn` and stores it to `next_turn`, the second has these the other way round,
//   and adds one. So no kernel stores to the one that its own blocks read.
// - Each of `words` counts what one rank gives another. The first kernel adds exchange_units, when its bytes
//   are visible; the stream of the other rank waits for so many, and its second kernel subtracts them.
// - The Signal of the second kernel has no value of its own: its flag gets the number of calls, when its
//   loads are over.
struct Exchange {
  uint32_t *turn = nullptr, *next_turn = nullptr;
  uint64_t half = 0;
  uint32_t* const* words = nullptr;
  size_t count = 0;  // of words, at most max_ranks
  bool gives = false;
};
inline constexpr unsigned exchange_units = 64;  // and the most blocks that a kernel may have

// Can the kernel of launch_copies(), launch_swap() or launch_reduce() run on this device? Loads its code the
// first time, but not while the device has other work: loading waits for all of that work, and other driver
// calls wait as well.
bool copies_available(int device);
bool swap_available(int device);
bool reduce_available(int device, ReduceOp op, Element element);
// Loads code that was requested while its device was busy. Costs next to nothing if there is none.
void load_missed_code();
bool has_missed_code();  // is there anything for it to do?

// to[j][i] = op(... op(op(from[0][i], from[1][i]), from[2][i]) ...) for every j and every i below count, with
// the same bits for any number of blocks. With one source it is a copy. A target may be one of the sources;
// otherwise targets must not overlap sources or each other. Any alignment is accepted; a common one of 16
// bytes is fast. 1 to max_ranks sources, 0 to max_ranks targets, all of which the device can access.
// Error::not_found: this build has no code for the GPU; Error::invalid_value: !has_kernel(op, element).
// `old`, if it is not null, receives from[0] as it was; the kernel then processes elements one at a time, and
// one target less is allowed.
device::Error launch_reduce(int device, device::Stream stream, ReduceOp op, Element element,
                            const void* const* from, int sources, void* const* to, int targets,
                            uint64_t count, unsigned blocks, Signal signal, void* old = nullptr,
                            const Exchange* exchange = nullptr);

// Copies up to max_copies items with about `blocks` blocks, but at least one for each item. Items must not
// overlap.
device::Error launch_copies(int device, device::Stream stream, const device::CopyItem* items, size_t count,
                            unsigned blocks, Signal signal, const Exchange* exchange = nullptr);

// MPI_Compare_and_swap of an element of up to 16 bytes: `old` receives the content of `target`; if that is
// equal to `compare`, `target` receives `wanted`. Not atomic: nobody else may change `target` meanwhile.
device::Error launch_swap(int device, device::Stream stream, void* target, const void* compare,
                          const void* wanted, void* old, unsigned bytes, Signal signal);

}  // namespace fairlead::kernels
