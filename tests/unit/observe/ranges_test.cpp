// SPDX-License-Identifier: Apache-2.0
//
// MPI calls and phases as ranges of NVTX and ROCTX, by libraries that play theirs.

#include "observe/ranges.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "observe/phases.h"
#include "observe/recorder.h"

extern "C" const char* what_roctx_was_told();

namespace fairlead::observe {
namespace {

class Ranges : public testing::Test {
 protected:
  void SetUp() override { unsetenv("NVTX_INJECTION64_PATH"); }
  void TearDown() override {
    detail::push_range = nullptr;
    detail::name_stream = nullptr;
  }

  void work() {
    open(1, [](int) { return "MPI_Send"; });
    begin_phase("a phase");
    begin_call(0);
    end_call();
    end_phase();
    close();
    for (const char* runtime : {"cuda", "rocm", "sim"}) name_stream(runtime, nullptr, runtime);
  }
};

TEST_F(Ranges, nvtx_by_the_tool_that_the_environment_names) {
  setenv("NVTX_INJECTION64_PATH", FAKE_NVTX, 1);
  open_ranges("auto");
  ASSERT_TRUE(ranges());
  work();
  void* tool = dlopen(FAKE_NVTX, RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_TRUE(tool);
  auto told = reinterpret_cast<const char* (*)()>(dlsym(tool, "what_nvtx_was_told"));
  EXPECT_STREQ(told(), "(a phase(MPI_Send))<cuda>");
}

TEST_F(Ranges, without_a_tool_there_is_no_nvtx) {
  open_ranges("nvtx");
  EXPECT_FALSE(ranges());
  setenv("NVTX_INJECTION64_PATH", "/no/such/tool.so", 1);
  open_ranges("nvtx");
  EXPECT_FALSE(ranges());
  work();
}

TEST_F(Ranges, roctx_where_its_library_is) {
  open_ranges("auto");
  ASSERT_TRUE(ranges());
  work();
  EXPECT_STREQ(what_roctx_was_told(), "(a phase(MPI_Send))<rocm>");
}

}  // namespace
}  // namespace fairlead::observe
