// SPDX-License-Identifier: Apache-2.0
//
// Lists of memory kinds: what is read, printed, merged and covered, whatever a program or a user writes.

#include "base/memory/memory_kinds.h"

#include <gtest/gtest.h>

namespace fairlead {
namespace {

std::string read(const std::string& text, size_t mistakes = 0) {
  std::vector<std::string> wrong;
  const std::string list = KindList::parse(text, &wrong).text();
  EXPECT_EQ(wrong.size(), mistakes) << text;
  return list;
}

bool covers(const char* list, const char* kinds) {
  return KindList::parse(list).covers(KindList::parse(kinds));
}

TEST(memory_kinds, lists_are_read_as_they_are_written) {
  for (const char* list :
       {"system", "mpi,system", "mpi:alloc_mem:win_allocate,cuda", "level_zero:shared", "x-1.a_b"})
    EXPECT_EQ(read(list), list);
  EXPECT_EQ(read(" system ,\tcuda:device "), "system,cuda:device");
}

TEST(memory_kinds, no_kinds_are_the_empty_list) {
  EXPECT_TRUE(KindList::parse("").empty());
  EXPECT_EQ(read("  "), "");
  EXPECT_TRUE(covers("", ""));
  EXPECT_TRUE(covers("system", ""));
  EXPECT_FALSE(covers("", "system"));
}

TEST(memory_kinds, mistakes_are_left_out_and_told) {
  EXPECT_EQ(read(",", 2), "");
  EXPECT_EQ(read("system,,mpi", 1), "system,mpi");
  EXPECT_EQ(read("cuda:,mpi", 1), "mpi");
  EXPECT_EQ(read(":device", 1), "");
  EXPECT_EQ(read("cuda::device,rocm", 1), "rocm");
  EXPECT_EQ(read("cuda device,mpi;system,$(x),\x80", 4), "");
  EXPECT_EQ(read(std::string(100000, ':'), 1), "");
  EXPECT_EQ(read(std::string(3, '\0'), 1), "");
  std::vector<std::string> wrong;
  KindList::parse("a b,mpi", &wrong);
  EXPECT_EQ(wrong, std::vector<std::string>{"a b"});
  KindList::parse("a b");  // nobody asks
}

TEST(memory_kinds, a_kind_without_restrictors_is_all_of_it) {
  EXPECT_TRUE(covers("cuda", "cuda:device"));
  EXPECT_TRUE(covers("cuda", "cuda:host:managed,cuda"));
  EXPECT_TRUE(covers("mpi,system", "mpi:win_allocate_shared"));
  EXPECT_FALSE(covers("cuda:device", "cuda"));
  EXPECT_FALSE(covers("cuda:device", "cuda:host"));
  EXPECT_FALSE(covers("cuda:device", "cuda:host:device"));
  EXPECT_TRUE(covers("cuda:device,cuda:host", "cuda:host:device"));
  EXPECT_TRUE(covers("cuda:device:host", "cuda:host"));
}

TEST(memory_kinds, what_is_not_there_is_not_covered) {
  EXPECT_FALSE(covers("mpi,system,cuda", "rocm"));
  EXPECT_FALSE(covers("mpi,system,cuda", "system,rocm:device"));
  EXPECT_FALSE(covers("cuda", "cuda:shared"));
  EXPECT_FALSE(covers("cuda", "cuda:device:shared"));
  EXPECT_FALSE(covers("system", "system:device"));
  EXPECT_FALSE(covers("system", "SYSTEM"));
  EXPECT_TRUE(covers("level_zero", "level_zero:shared"));
  // Of a kind that only the host MPI knows, any restrictor may be one.
  EXPECT_TRUE(covers("other", "other:fast"));
}

TEST(memory_kinds, lists_grow_by_what_they_lack) {
  KindList list = KindList::parse("mpi,system,cuda:device");
  list.add(KindList::all_of("cuda"));
  EXPECT_EQ(list.text(), "mpi,system,cuda:device,cuda,cuda:host,cuda:managed");
  list.add(KindList::parse(list.text()));
  EXPECT_EQ(list.kinds().size(), 6u);
  EXPECT_EQ(KindList::all_of("unknown").text(), "unknown");
}

}  // namespace
}  // namespace fairlead
