// SPDX-License-Identifier: Apache-2.0
// Which memory is mapped through gdrcopy, when, and for how long, with a substitute of its library.

#include "device/cuda/gdrcopy.h"

#include <gtest/gtest.h>

extern "C" int fake_gdrapi_pinned();

namespace fairlead::device {
namespace {

constexpr uintptr_t page = 65536;

class GdrcopyTest : public testing::Test {
 protected:
  GdrcopyTest() { EXPECT_NE(library, nullptr); }

  void* map(uintptr_t address, size_t bytes, uint64_t id = 1) {
    Allocation allocation{MemoryKind::device, true, 0, 16 * page, 1000 * page, id};
    return library->map(allocation, reinterpret_cast<void*>(address), bytes);
  }
  void* map_insistently(uintptr_t address, size_t bytes, uint64_t id = 1) {
    void* mapped = nullptr;
    for (int i = 0; i < 20 && !mapped; ++i) mapped = map(address, bytes, id);
    return mapped;
  }

  Gdrcopy* library = Gdrcopy::open();  // one for each test: its mappings are never given back as a whole
  const int before = fake_gdrapi_pinned();
};

TEST_F(GdrcopyTest, a_page_is_pinned_once_when_it_is_asked_for_repeatedly) {
  EXPECT_EQ(map(16 * page + 100, 8), nullptr);
  EXPECT_EQ(fake_gdrapi_pinned(), before);
  EXPECT_EQ(map_insistently(16 * page + 100, 8), reinterpret_cast<void*>(16 * page + 100));
  EXPECT_EQ(map(17 * page - 8, 8), reinterpret_cast<void*>(17 * page - 8));
  EXPECT_EQ(fake_gdrapi_pinned(), before + 1);
}

TEST_F(GdrcopyTest, memory_allocated_anew_is_pinned_anew) {
  ASSERT_NE(map_insistently(20 * page, 8, 1), nullptr);
  EXPECT_EQ(map(20 * page, 8, 2), nullptr);
  ASSERT_NE(map_insistently(20 * page, 8, 2), nullptr);
  EXPECT_EQ(fake_gdrapi_pinned(), before + 2);
}

TEST_F(GdrcopyTest, what_crosses_a_page_or_the_allocation_is_not_mapped) {
  EXPECT_EQ(map_insistently(17 * page - 4, 8), nullptr);
  EXPECT_EQ(map_insistently(1016 * page - 4, 8), nullptr);
  EXPECT_EQ(fake_gdrapi_pinned(), before);
}

TEST_F(GdrcopyTest, few_pages_are_kept) {
  for (uintptr_t number = 0; number < 200; ++number)
    ASSERT_NE(map_insistently((16 + number) * page, 8), nullptr);
  EXPECT_LE(fake_gdrapi_pinned() - before, 64);
}

TEST_F(GdrcopyTest, a_page_that_cannot_be_pinned_is_asked_for_once) {
  Allocation allocation{MemoryKind::device, true, 0, page, page, 1};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(library->map(allocation, reinterpret_cast<void*>(page), 8), nullptr);
  EXPECT_EQ(fake_gdrapi_pinned(), before);
}

}  // namespace
}  // namespace fairlead::device
