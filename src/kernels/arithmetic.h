// SPDX-License-Identifier: Apache-2.0
//
// The elements of reduce.h as types, and its operations on two of them, in device code. Integer overflow
// wraps around: sums and products are those of unsigned numbers. 16-bit floating point is computed in float
// and rounded after each operation.

#pragma once

#include <fairlead/kernel.h>

#include "kernels/half.h"

namespace fairlead::kernels {

template <class Part>
struct Complex {
  Part real, imaginary;
};

// Contraction would round once where two operations round twice, and on some targets only.
#ifdef __clang__
#define FAIRLEAD_NO_CONTRACTION _Pragma("clang fp contract(off)")
#else
#define FAIRLEAD_NO_CONTRACTION
#endif

template <class Part>
FAIRLEAD_DEVICE_FUNCTION Complex<Part> operator+(Complex<Part> a, Complex<Part> b) {
  return {a.real + b.real, a.imaginary + b.imaginary};
}
template <class Part>
FAIRLEAD_DEVICE_FUNCTION Complex<Part> operator*(Complex<Part> a, Complex<Part> b) {
  FAIRLEAD_NO_CONTRACTION
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

template <class Value, class Index>
struct Pair {
  Value value;
  Index index;
};

// The names are those of reduce.h. Where signs make no difference, only the unsigned type is used.
namespace element {
using int8 = signed char;
using int16 = short;
using int32 = int;
using int64 = long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned;
using uint64 = unsigned long;
struct float16 {
  unsigned short bits;
};
struct bfloat16 {
  unsigned short bits;
};
using float32 = float;
using float64 = double;
using complex_float = Complex<float>;
using complex_double = Complex<double>;
using float_int = Pair<float, int>;
using double_int = Pair<double, int>;
using long_int = Pair<long, int>;
using int_int = Pair<int, int>;
using short_int = Pair<short, int>;
using float_float = Pair<float, float>;
using double_double = Pair<double, double>;
}  // namespace element

// The type in which an element is computed.
template <class Type>
struct Wide {
  static FAIRLEAD_DEVICE_FUNCTION Type from(Type value) { return value; }
  static FAIRLEAD_DEVICE_FUNCTION Type to(Type value) { return value; }
};
template <class Narrow, class Number>
struct WideInteger {
  static FAIRLEAD_DEVICE_FUNCTION Number from(Narrow value) { return value; }
  static FAIRLEAD_DEVICE_FUNCTION Narrow to(Number value) { return static_cast<Narrow>(value); }
};
template <>
struct Wide<element::uint8> : WideInteger<element::uint8, unsigned> {};
template <>
struct Wide<element::uint16> : WideInteger<element::uint16, unsigned> {};
template <>
struct Wide<element::int8> : WideInteger<element::int8, int> {};
template <>
struct Wide<element::int16> : WideInteger<element::int16, int> {};
template <>
struct Wide<element::float16> {
  static FAIRLEAD_DEVICE_FUNCTION float from(element::float16 value) { return float16_to_float(value.bits); }
  static FAIRLEAD_DEVICE_FUNCTION element::float16 to(float value) { return {float_to_float16(value)}; }
};
template <>
struct Wide<element::bfloat16> {
  static FAIRLEAD_DEVICE_FUNCTION float from(element::bfloat16 value) {
    return bfloat16_to_float(value.bits);
  }
  static FAIRLEAD_DEVICE_FUNCTION element::bfloat16 to(float value) { return {float_to_bfloat16(value)}; }
};

// clang-format takes these for declarations of pointers and references.
// clang-format off
// An operation: whether it treats all bits alike, and its result for a, of the lower rank, and b.
#define FAIRLEAD_OPERATION(name, on_bits, ...)                   \
  struct name {                                                  \
    static constexpr bool bitwise = on_bits;                     \
    template <class Number>                                      \
    static FAIRLEAD_DEVICE_FUNCTION Number of(Number a, Number b) { \
      return __VA_ARGS__;                                        \
    }                                                            \
  };
namespace operation {
FAIRLEAD_OPERATION(sum, false, a + b)
FAIRLEAD_OPERATION(prod, false, a * b)
FAIRLEAD_OPERATION(min, false, b < a ? b : a)
FAIRLEAD_OPERATION(max, false, a < b ? b : a)
FAIRLEAD_OPERATION(land, false, a && b)
FAIRLEAD_OPERATION(lor, false, a || b)
FAIRLEAD_OPERATION(lxor, false, !a != !b)
FAIRLEAD_OPERATION(band, true, a & b)
FAIRLEAD_OPERATION(bor, true, a | b)
FAIRLEAD_OPERATION(bxor, true, a ^ b)
// If the values are equal, the result is the one with the lower index.
FAIRLEAD_OPERATION(minloc, false, b.value < a.value || (a.value == b.value && b.index < a.index) ? b : a)
FAIRLEAD_OPERATION(maxloc, false, a.value < b.value || (a.value == b.value && b.index < a.index) ? b : a)
}  // namespace operation
#undef FAIRLEAD_OPERATION
// clang-format on

template <class Operation, class Type>
FAIRLEAD_DEVICE_FUNCTION Type combine(Type a, Type b) {
  return Wide<Type>::to(Operation::of(Wide<Type>::from(a), Wide<Type>::from(b)));
}

}  // namespace fairlead::kernels
