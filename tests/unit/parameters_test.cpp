// SPDX-License-Identifier: Apache-2.0
//
// The parameters of our MPI functions are compared with those that the MPI header declares.

#include "mpi/abi/parameters.h"

#include <gtest/gtest.h>

extern "C" int count_of_const(int count, const long numbers[]);
extern "C" int count_of_changeable(int count, long numbers[]);
extern "C" int no_parameter(void);

namespace fairlead::mpi {
namespace {

#define CALL(function) [](auto... arguments) -> decltype(function(arguments...)) { return 0; }

using Declared = int(int, const long*);

TEST(Parameters, are_the_same) {
  EXPECT_TRUE(Takes<Declared>::by(CALL(count_of_const)));
  EXPECT_TRUE(Takes<int()>::by(CALL(no_parameter)));
}

TEST(Parameters, are_the_same_apart_from_const) {
  EXPECT_TRUE(Takes<Declared>::by(CALL(count_of_changeable)));
  EXPECT_TRUE((Takes<int(int, long*)>::by(CALL(count_of_const))));
}

TEST(Parameters, are_not_compared_where_the_function_is_not_declared) {
  EXPECT_TRUE(Takes<Declared>::by(CALL(of_a_later_standard)));
}

TEST(Parameters, of_other_types_are_found_although_they_convert) {
  EXPECT_FALSE((Takes<int(long, const long*)>::by(CALL(count_of_const))));
  EXPECT_FALSE((Takes<int(int, const long* const*)>::by(CALL(count_of_const))));
  EXPECT_FALSE((Takes<int(int, const int*)>::by(CALL(count_of_changeable))));
}

}  // namespace
}  // namespace fairlead::mpi
