// SPDX-License-Identifier: Apache-2.0
//
// What a reduction must yield, computed on the host element by element: the C++ type of each element, the
// result of each operation on two of them, and random operands. It knows nothing of vectors, blocks or
// alignment.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <random>
#include <type_traits>

#include "kernels/half.h"
#include "kernels/reduce.h"

namespace fairlead::kernels {

struct Half {
  unsigned short bits;
};
struct Brain {
  unsigned short bits;
};
template <class Value, class Index>
struct Located {
  Value value;
  Index index;
};

inline float widened(Half value) {
  return float16_to_float(value.bits);
}
inline float widened(Brain value) {
  return bfloat16_to_float(value.bits);
}
template <class Type>
Type widened(Type value) {
  return value;
}
template <class Type, class Number>
Type narrowed(Number value) {
  if constexpr (std::is_same_v<Type, Half>)
    return {float_to_float16(value)};
  else if constexpr (std::is_same_v<Type, Brain>)
    return {float_to_bfloat16(value)};
  else
    return static_cast<Type>(value);
}

template <class Type>
Type product(Type a, Type b) {
  return a * b;
}
template <class Part>
std::complex<Part> product(std::complex<Part> a, std::complex<Part> b) {  // operator* looks after infinities
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class Type>
Type expected(ReduceOp op, Type a, Type b) {
  if (op == ReduceOp::replace) return b;
  if constexpr (requires { a.index; }) {
    bool first = op == ReduceOp::minloc ? a.value < b.value : a.value > b.value;
    if (a.value == b.value) return a.index <= b.index ? a : b;
    return first ? a : b;
  } else {
    auto x = widened(a), y = widened(b);
    using Number = decltype(x);
    if constexpr (std::is_integral_v<Number>) {
      using Unsigned = unsigned long;
      switch (op) {
        case ReduceOp::sum:
          return static_cast<Type>(static_cast<Unsigned>(x) + static_cast<Unsigned>(y));
        case ReduceOp::prod:
          return static_cast<Type>(static_cast<Unsigned>(x) * static_cast<Unsigned>(y));
        case ReduceOp::land:
          return x != 0 && y != 0;
        case ReduceOp::lor:
          return x != 0 || y != 0;
        case ReduceOp::lxor:
          return (x != 0) != (y != 0);
        case ReduceOp::band:
          return static_cast<Type>(x & y);
        case ReduceOp::bor:
          return static_cast<Type>(x | y);
        case ReduceOp::bxor:
          return static_cast<Type>(x ^ y);
        default:
          break;
      }
    }
    if (op == ReduceOp::sum) return narrowed<Type>(x + y);
    if (op == ReduceOp::prod) return narrowed<Type>(product(x, y));
    if constexpr (requires { x < y; })
      return narrowed<Type>(op == ReduceOp::min ? std::min(x, y) : std::max(x, y));
    ADD_FAILURE() << "no oracle for " << to_string(op);
    return a;
  }
}

// Calls `work` with a value of the C++ type of an element.
// clang-format off
template <class Work>
void with_type(Element element, Work work) {
  switch (element) {
    case Element::int8: return work(int8_t{});
    case Element::uint8: case Element::byte: return work(uint8_t{});
    case Element::boolean: case Element::logical8: return work(uint8_t{});
    case Element::int16: return work(int16_t{});
    case Element::uint16: case Element::logical16: return work(uint16_t{});
    case Element::int32: case Element::logical32: return work(int32_t{});
    case Element::uint32: return work(uint32_t{});
    case Element::int64: case Element::logical64: return work(int64_t{});
    case Element::uint64: return work(uint64_t{});
    case Element::float16: return work(Half{});
    case Element::bfloat16: return work(Brain{});
    case Element::float32: return work(float{});
    case Element::float64: return work(double{});
    case Element::complex_float: return work(std::complex<float>{});
    case Element::complex_double: return work(std::complex<double>{});
    case Element::float_int: return work(Located<float, int>{});
    case Element::double_int: return work(Located<double, int>{});
    case Element::long_int: return work(Located<long, int>{});
    case Element::int_int: return work(Located<int, int>{});
    case Element::short_int: return work(Located<short, int>{});
    case Element::float_float: return work(Located<float, float>{});
    case Element::double_double: return work(Located<double, double>{});
  }
}
// clang-format on

inline std::mt19937_64& random_bits() {
  static std::mt19937_64 generator(20260);
  return generator;
}
inline unsigned long below(unsigned long limit) {
  return random_bits()() % limit;
}

// Never infinite after 32 factors, never a NaN; pairs with equal values and all kinds of truth among them.
template <class Type>
void draw(Type* value) {
  auto small = [] { return (static_cast<double>(below(4096)) - 2048) / 1024; };
  if constexpr (std::is_same_v<Type, Half>)
    value->bits = float_to_float16(static_cast<float>(small()));
  else if constexpr (std::is_same_v<Type, Brain>)
    value->bits = float_to_bfloat16(static_cast<float>(small()));
  else if constexpr (requires { value->index; }) {
    value->value = static_cast<decltype(value->value)>(below(5));
    value->index = static_cast<decltype(value->index)>(below(7));
  } else if constexpr (std::is_integral_v<Type>)
    *value = static_cast<Type>(below(3) ? random_bits()() : below(3));
  else if constexpr (std::is_floating_point_v<Type>)
    *value = static_cast<Type>(small());
  else
    *value = {static_cast<typename Type::value_type>(small()),
              static_cast<typename Type::value_type>(small())};
}

}  // namespace fairlead::kernels
