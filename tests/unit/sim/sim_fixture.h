// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the simulated GPU share: the runtime, and short ways to ask it for things that must
// succeed.

#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "device/runtime.h"

namespace fairlead::device {

// Names the error where a test compares errors.
inline void PrintTo(Error error, std::ostream* out) {
  *out << to_string(error);
}

class SimTest : public testing::Test {
 protected:
  SimTest() : gpu(*whole_runtime()) {}

  char* device_memory(size_t bytes, int device = 0) {
    void* address = nullptr;
    EXPECT_EQ(gpu.allocate(device, bytes, &address), Error::none) << gpu.error_text();
    return static_cast<char*>(address);
  }
  char* pinned_memory(size_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(gpu.allocate_pinned(bytes, &address), Error::none) << gpu.error_text();
    return static_cast<char*>(address);
  }
  Stream stream(int device = 0) {
    Stream made = nullptr;
    EXPECT_EQ(gpu.create_stream(device, &made), Error::none) << gpu.error_text();
    return made;
  }
  Event event(int device = 0) {
    Event made = nullptr;
    EXPECT_EQ(gpu.create_event(device, &made), Error::none) << gpu.error_text();
    return made;
  }
  Allocation query(const void* address) {
    Allocation allocation;
    EXPECT_EQ(gpu.query(address, &allocation), Error::none);
    return allocation;
  }
  // What lies in device memory now.
  std::vector<unsigned char> read(const void* address, size_t bytes) {
    std::vector<unsigned char> host(bytes);
    Stream on = stream();
    EXPECT_EQ(gpu.copy(host.data(), address, bytes, on), Error::none) << gpu.error_text();
    EXPECT_EQ(gpu.synchronize_stream(on), Error::none) << gpu.error_text();
    EXPECT_EQ(gpu.destroy_stream(on), Error::none);
    return host;
  }
  void fill(void* address, int byte, size_t bytes) {
    Stream on = stream();
    EXPECT_EQ(gpu.fill(address, byte, bytes, on), Error::none) << gpu.error_text();
    EXPECT_EQ(gpu.synchronize_stream(on), Error::none) << gpu.error_text();
    EXPECT_EQ(gpu.destroy_stream(on), Error::none);
  }

  Runtime& gpu;
};

}  // namespace fairlead::device
