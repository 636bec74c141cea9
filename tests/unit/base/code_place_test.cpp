// SPDX-License-Identifier: Apache-2.0
//
// Places in code, as reports name them.

#include "base/system/code_place.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>

namespace fairlead {
namespace {

[[gnu::noinline]] uintptr_t caller() {
  return reinterpret_cast<uintptr_t>(__builtin_return_address(0));
}

TEST(CodePlace, of_the_program_it_has_its_path_and_the_line_of_the_source) {
  const CodePlace place = place_of_code(caller());
  const std::string line = std::to_string(__LINE__ - 1);
  EXPECT_EQ(place.file, std::filesystem::canonical("/proc/self/exe"));
  EXPECT_TRUE(std::regex_match(place.text(), std::regex("code_place_test\\+0x[0-9a-f]+"))) << place.text();
  // Where there is addr2line, and debug information.
  const std::string with_line = texts_with_lines({place}).front();
  if (with_line != place.text()) {
    EXPECT_EQ(with_line, place.text() + " (code_place_test.cpp:" + line + ")");
  }
}

TEST(CodePlace, of_a_library_it_has_the_path_of_the_library) {
  const CodePlace place = place_of_code(reinterpret_cast<uintptr_t>(&std::fflush));
  EXPECT_NE(place.file.find("/libc.so"), std::string::npos) << place.file;
}

TEST(CodePlace, of_no_file_it_has_the_address) {
  const auto address = reinterpret_cast<uintptr_t>(std::make_unique<int>().get());
  EXPECT_EQ(place_of_code(address), (CodePlace{"", address}));
  EXPECT_EQ((CodePlace{"", 0x12}.text()), "0x12");
}

TEST(CodePlace, what_cannot_be_read_has_no_lines) {
  EXPECT_EQ(texts_with_lines({{"", 1}, {"/none/of/this", 0x20}, {"/none/of/this", 0x30}}),
            (std::vector<std::string>{"0x1", "this+0x20", "this+0x30"}));
}

}  // namespace
}  // namespace fairlead
