// SPDX-License-Identifier: Apache-2.0

#include "base/system/processor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

using namespace std::chrono_literals;

// Their rate may differ from what is assumed by some factor, and more time may pass.
TEST(Processor, ticks_count_time) {
  const uint64_t before = fairlead::ticks();
  std::this_thread::sleep_for(20ms);
  EXPECT_GT(fairlead::ticks() - before, fairlead::ticks_in(5ms));
  EXPECT_GT(fairlead::ticks_in(1ms), fairlead::ticks_in(10us));
}
