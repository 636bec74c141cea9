// SPDX-License-Identifier: Apache-2.0
//
// Which parameters does a function take that may be declared or not? Compared at compile time, apart from
// const.

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

// Arguments that show which parameters a function has: one that every parameter takes, and one that only
// parameters of this type take, const or not.
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

// Takes<Signature>::by([](auto... arguments) -> decltype(function(arguments...)) { ... }): true where
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
