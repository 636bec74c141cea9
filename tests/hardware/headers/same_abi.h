// SPDX-License-Identifier: Apache-2.0
//
// Is a function type written in our own words the one of a vendor's header, as far as a caller can tell?
// Enumerations count as the integers they are passed as, and one opaque handle is as good as another.
// Compile-time only.

#pragma once

#include <type_traits>

namespace fairlead::test {

template <class T>
constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;

template <class T>
concept Complete = requires {
  sizeof(T);
};

// What a pointer leads to: numbers of one size, structs that hold at least the vendor's bytes, or anything
// where either is opaque.
template <class Ours, class Theirs>
constexpr bool same_target() {
  if constexpr (std::is_function_v<Ours> || std::is_function_v<Theirs> || !Complete<Ours> ||
                !Complete<Theirs>) {
    return true;
  } else if constexpr (std::is_class_v<Theirs>) {
    return std::is_class_v<Ours> && sizeof(Ours) >= sizeof(Theirs) && alignof(Ours) >= alignof(Theirs);
  } else {
    return sizeof(Ours) == sizeof(Theirs) && is_number<Ours> == is_number<Theirs>;
  }
}

template <class Ours, class Theirs>
constexpr bool same_value() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    return same_target<std::remove_cv_t<std::remove_pointer_t<Ours>>,
                       std::remove_cv_t<std::remove_pointer_t<Theirs>>>();
  } else if constexpr (is_number<Ours> && is_number<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else {
    // By value, a struct must have the same size, as it decides the registers or the stack it takes.
    return std::is_class_v<Ours> && std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
           alignof(Ours) == alignof(Theirs) && std::is_trivially_copyable_v<Ours>;
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};

template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameFunction<R(A...), S(B...)>
    : std::bool_constant<same_value<R, S>() && (same_value<A, B>() && ...)> {
};

}  // namespace fairlead::test
