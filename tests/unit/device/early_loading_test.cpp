// SPDX-License-Identifier: Apache-2.0
//
// Kernels that a thread loads before the first collective needs them. Cases run in this order.

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "device_runtime_kernel.h"
#include "kernels/kernel_run.h"

using namespace fairlead;
using namespace fairlead::kernels;
using device::Error;

namespace {

device::Runtime& gpu() {
  return *device::whole_runtime();
}

void load_early() {
  EarlyLoading loading;
}

void use(int device) {
  void* memory = nullptr;
  ASSERT_EQ(gpu().allocate(device, 64, &memory), Error::none);
  ASSERT_EQ(gpu().free(memory), Error::none);
}

// While a kernel of the program runs, nothing is loaded.
class Busy {
 public:
  explicit Busy(int device) {
    static const std::vector<device::CodeImage> images = test::kernel_images();
    device::Kernel kernel = nullptr;
    void* flag = nullptr;
    EXPECT_EQ(gpu().find_kernel(device, images.data(), images.size(), "run_until", &kernel), Error::none);
    EXPECT_EQ(gpu().allocate_pinned(sizeof(int), &flag), Error::none);
    EXPECT_EQ(gpu().create_stream(device, &stream_, device::StreamKind::application), Error::none);
    over_ = static_cast<volatile int*>(flag);
    *over_ = 0;
    void* arguments[] = {&flag};
    EXPECT_EQ(gpu().launch(kernel, 1, 1, arguments, stream_), Error::none);
  }
  ~Busy() {
    *over_ = 1;
    EXPECT_EQ(gpu().synchronize_stream(stream_), Error::none);
    EXPECT_EQ(gpu().destroy_stream(stream_), Error::none);
  }

 private:
  device::Stream stream_ = nullptr;
  volatile int* over_ = nullptr;
};

bool known(int device, ReduceOp op, Element element) {
  Busy busy(device);
  return reductions_run_on(device, op, element);
}

}  // namespace

TEST(early_loading, creates_no_context) {
  load_early();
  EXPECT_FALSE(gpu().has_context(0));
  use(0);
  load_early();
  EXPECT_TRUE(gpu().has_context(0));
  EXPECT_FALSE(gpu().has_context(1));
}

TEST(early_loading, what_is_likely_is_known_before_its_first_use) {
  EXPECT_TRUE(known(0, ReduceOp::sum, Element::float64));
  EXPECT_FALSE(known(0, ReduceOp::prod, Element::complex_double));
}

TEST(early_loading, does_not_invalidate_a_capture_of_the_program) {
  use(1);
  device::Stream stream = nullptr;
  device::Graph graph = nullptr;
  ASSERT_EQ(gpu().create_stream(1, &stream, device::StreamKind::application), Error::none);
  ASSERT_EQ(gpu().begin_capture(stream), Error::none);
  load_early();
  EXPECT_EQ(gpu().end_capture(stream, &graph), Error::none) << gpu().error_text();
  // The kernels are loaded later.
  EXPECT_FALSE(known(1, ReduceOp::sum, Element::float64));
  do load_early();
  while (!known(1, ReduceOp::sum, Element::float64));
}

TEST(early_loading, the_process_may_exit_meanwhile) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto exits = [] {
    use(0);
    new EarlyLoading;
    std::exit(0);
  };
  EXPECT_EXIT(exits(), testing::ExitedWithCode(0), "");
}
