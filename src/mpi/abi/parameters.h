// SPDX-License-Identifier: Apache-2.0
//
// Compares at compile time, ignoring const, the parameters of a function with a signature. The function may
// be undeclared.

#pragma once

#include <type_traits>

namespace fairlead::mpi {

namespace detail {

// A type without the const of what it points to, at every level.
template <class Type>
struct WithoutConst {
  using type = Type;
};
template <class Type>
struct WithoutConst<const Type> : WithoutConst<Type> {};
template <class Type>
struct WithoutConst<Type*> {
  using type = typename WithoutConst<Type>::type*;
};
template <class One, class Other>
inline constexpr bool same_apart_from_const =
    std::is_same_v<typename WithoutConst<One>::type, typename WithoutConst<Other>::type>;

// Arguments that reveal which parameters a function has: the first converts to any parameter, the second only
// to parameters of this type, const or not.
template <class>
struct AnyArgument {
  template <class Parameter>
  operator Parameter() const;
};
template <class Type>
struct ExactArgument {
  template <class Parameter, class = std::enable_if_t<same_apart_from_const<Parameter, Type>>>
  operator Parameter() const;
};

}  // namespace detail

// Takes<Signature>::by([](auto... arguments) -> decltype(function(arguments...)) { ... }) is true if
// `function` is not declared, or has the parameters of the signature.
template <class Signature>
struct Takes;
template <class... Parameters>
struct Takes<int(Parameters...)> {
  template <class Call>
  static constexpr bool by(Call) {
    return !std::is_invocable_v<Call, detail::AnyArgument<Parameters>...> ||
           std::is_invocable_v<Call, detail::ExactArgument<Parameters>...>;
  }
};

}  // namespace fairlead::mpi
