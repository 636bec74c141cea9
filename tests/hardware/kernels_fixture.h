// SPDX-License-Identifier: Apache-2.0
//
// What the tests of kernels share: device memory with a stream, and macros for results of the device.

#pragma once

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/runtime.h"
#include "kernels/end_signal.h"
#include "reduction_oracle.h"

namespace fairlead::kernels {

using device::Error;
using device::Stream;
using Bytes = std::vector<unsigned char>;

inline device::Runtime& gpu() {
  return *device::whole_runtime();
}

inline testing::AssertionResult succeeded(const char* call, Error error) {
  if (error == Error::none) return testing::AssertionSuccess();
  return testing::AssertionFailure() << call << ": " << to_string(error) << ": " << gpu().error_text();
}
#define ASSERT_SUCCESS(call) ASSERT_PRED_FORMAT1(succeeded, call)
#define EXPECT_SUCCESS(call) EXPECT_PRED_FORMAT1(succeeded, call)

// Device memory, a stream, a counter and a flag.
class Device {
 public:
  explicit Device(size_t bytes) : bytes_(bytes) {
    EXPECT_SUCCESS(gpu().create_stream(0, &stream_));
    EXPECT_SUCCESS(gpu().allocate(0, bytes + 256, &memory_));
    void* flag = nullptr;
    EXPECT_SUCCESS(gpu().allocate_pinned(2 * sizeof(uint64_t), &flag));
    signal_.flag = static_cast<uint64_t*>(flag);
    signal_.flag[0] = signal_.flag[1] = 0;
    signal_.counter = reinterpret_cast<uint32_t*>(at(bytes));
    EXPECT_SUCCESS(gpu().fill(signal_.counter, 0, sizeof(uint32_t), stream_));
  }
  ~Device() {
    uint32_t counter = 1;
    EXPECT_SUCCESS(gpu().copy(&counter, signal_.counter, sizeof counter, stream_));
    EXPECT_SUCCESS(gpu().synchronize_stream(stream_));
    EXPECT_EQ(counter, 0u) << "left behind";
    EXPECT_SUCCESS(gpu().destroy_stream(stream_));
    EXPECT_SUCCESS(gpu().free(memory_));
    EXPECT_SUCCESS(gpu().free_pinned(signal_.flag));
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  unsigned char* at(size_t offset) const { return static_cast<unsigned char*>(memory_) + offset; }
  Stream stream() const { return stream_; }

  void write(const Bytes& content) const {
    EXPECT_SUCCESS(gpu().copy(memory_, content.data(), bytes_, stream_));
    EXPECT_SUCCESS(gpu().synchronize_stream(stream_));
  }
  Bytes read() const {
    Bytes content(bytes_);
    EXPECT_SUCCESS(gpu().copy(content.data(), memory_, bytes_, stream_));
    EXPECT_SUCCESS(gpu().synchronize_stream(stream_));
    return content;
  }

  const Signal& signal() const { return signal_; }
  uint64_t* word_beside_flag() const { return signal_.flag + 1; }
  const Signal& next_signal() {
    ++signal_.value;
    return signal_;
  }
  // Waits for the flag, as those do who use the kernels.
  void await_flag() const {
    while (__atomic_load_n(signal_.flag, __ATOMIC_ACQUIRE) != signal_.value) {
      Error state = gpu().query_stream(stream_);
      ASSERT_TRUE(state == Error::none || state == Error::not_ready) << gpu().error_text();
      if (state == Error::none) {
        ASSERT_EQ(__atomic_load_n(signal_.flag, __ATOMIC_ACQUIRE), signal_.value)
            << "the kernel said nothing";
      }
      std::this_thread::yield();
    }
  }

 private:
  size_t bytes_;
  void* memory_ = nullptr;
  Stream stream_ = nullptr;
  Signal signal_;
};

inline Bytes random_bytes(size_t count) {
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random_bits()());
  return bytes;
}

}  // namespace fairlead::kernels
