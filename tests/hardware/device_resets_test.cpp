// SPDX-License-Identifier: Apache-2.0
//
// One test for every provider, as device_runtime_test.cpp, of devices that the program resets: the provider
// notices, nothing that was made before reaches the driver, and what is made afterwards works.

#include <gtest/gtest.h>

#include <cstring>

#include "device_runtime_fixture.h"
#include "device_runtime_kernel.h"

namespace fairlead::device {
namespace {

constexpr size_t bytes = 1 << 20;

bool is_sim() {
  return std::strcmp(gpu().name(), "sim") == 0;
}

void* device_memory(int device = 0) {
  void* address = nullptr;
  EXPECT_SUCCESS(gpu().allocate(device, bytes, &address));
  return address;
}

uint64_t id_of(const void* address) {
  Allocation found;
  EXPECT_SUCCESS(gpu().query(address, &found));
  EXPECT_EQ(found.kind, MemoryKind::device);
  return found.id;
}

Stream stream_of(int device = 0) {
  Stream made = nullptr;
  EXPECT_SUCCESS(gpu().create_stream(device, &made, StreamKind::urgent));
  return made;
}

// Writes and reads memory of the device, both by copies.
void expect_copies(void* memory, Stream stream, unsigned seed) {
  Bytes sent = pattern(bytes, seed), got(bytes);
  EXPECT_SUCCESS(gpu().copy(memory, sent.data(), bytes, stream));
  EXPECT_SUCCESS(gpu().synchronize_stream(stream));
  EXPECT_SUCCESS(gpu().copy(got.data(), memory, bytes, stream));
  EXPECT_SUCCESS(gpu().synchronize_stream(stream));
  EXPECT_EQ(got, sent);
}

// Everything that a provider makes on a device.
struct Things {
  explicit Things(int device = 0)
      : device(device), memory(device_memory(device)), id(id_of(memory)), stream(stream_of(device)) {
    EXPECT_SUCCESS(gpu().create_event(device, &event));
    EXPECT_SUCCESS(gpu().record_event(event, stream));
    EXPECT_SUCCESS(gpu().allocate_pinned(bytes, &pinned, &this->device));
    expect_copies(memory, stream, 3);
  }
  // The provider need not have noticed that the device was reset.
  void destroy() {
    EXPECT_SUCCESS(gpu().destroy_event(event));
    EXPECT_SUCCESS(gpu().destroy_stream(stream));
  }
  void free() {
    destroy();
    EXPECT_SUCCESS(gpu().free_pinned(pinned));
    EXPECT_SUCCESS(gpu().free(memory));
  }

  int device;
  void* memory;
  uint64_t id;
  Stream stream;
  Event event = nullptr;
  void* pinned = nullptr;
};

TEST(device_resets, things_of_before_are_destroyed_without_the_driver) {
  Things before;
  ASSERT_SUCCESS(gpu().reset(0));
  before.destroy();
  Things after;
  after.free();
}

TEST(device_resets, new_memory_tells_of_the_reset) {
  for (int life = 0; life < 3; ++life) {
    Things before;
    const uint32_t context = gpu().context_number(0);
    ASSERT_SUCCESS(gpu().reset(0));
    void* const memory = device_memory();
    EXPECT_NE(id_of(memory), before.id);
    EXPECT_EQ(gpu().context_number(0), context + 1);
    if (!is_sim()) {  // that one would end the process
      EXPECT_EQ(gpu().query_stream(before.stream), Error::failed);
      EXPECT_EQ(gpu().query_event(before.event), Error::failed);
      EXPECT_EQ(gpu().copy(memory, memory, 1, before.stream), Error::failed);
    }
    before.destroy();
    Things after;
    after.free();
    EXPECT_EQ(gpu().context_number(0), context + 1);
    EXPECT_SUCCESS(gpu().free(memory));
  }
}

TEST(device_resets, the_question_for_the_context_tells_of_the_reset) {
  Things before;
  const uint32_t context = gpu().context_number(0);
  ASSERT_SUCCESS(gpu().reset(0));
  (void)gpu().has_context(0);
  EXPECT_EQ(gpu().context_number(0), context + 1);
  before.destroy();
  Things after;
  after.free();
}

TEST(device_resets, kernels_are_loaded_again) {
  static const std::vector<CodeImage> images = test::kernel_images();
  if (!is_sim() && images.size() < 2) GTEST_SKIP() << "built without device code";
  unsigned long count = 1000;
  for (unsigned life = 0; life < 3; ++life) {
    Kernel kernel = nullptr;
    ASSERT_SUCCESS(gpu().find_kernel(0, images.data(), images.size(), "count_up", &kernel));
    Things now;
    void* arguments[] = {&now.memory, &life, &count};
    ASSERT_SUCCESS(gpu().launch(kernel, 8, 128, arguments, now.stream));
    std::vector<unsigned> read(count);
    EXPECT_SUCCESS(gpu().copy(read.data(), now.memory, count * sizeof(unsigned), now.stream));
    EXPECT_SUCCESS(gpu().synchronize_stream(now.stream));
    for (unsigned i = 0; i < count; ++i) ASSERT_EQ(read[i], life + i) << "at " << i;
    ASSERT_SUCCESS(gpu().reset(0));
    now.destroy();
  }
}

TEST(device_resets, host_memory_is_registered_again) {
  alignas(4096) static unsigned char memory[8192];
  for (int life = 0; life < 3; ++life) {
    int device = 0;
    ASSERT_SUCCESS(gpu().register_host(memory, sizeof memory, &device));
    EXPECT_EQ(device, 0);
    ASSERT_SUCCESS(gpu().reset(0));
    (void)gpu().has_context(0);
  }
}

TEST(device_resets, other_devices_keep_all) {
  if (devices() < 2) GTEST_SKIP() << "needs two devices";
  Things before(0), others(1);
  const uint32_t context = gpu().context_number(1);
  ASSERT_SUCCESS(gpu().reset(0));
  Things after(0);
  EXPECT_EQ(gpu().context_number(1), context);
  EXPECT_EQ(id_of(others.memory), others.id);
  expect_copies(others.memory, others.stream, 4);
  EXPECT_SUCCESS(gpu().query_event(others.event));
  others.free();
  before.destroy();
  after.free();
}

}  // namespace
}  // namespace fairlead::device

int main(int argc, char** argv) {
  using namespace fairlead::device;
  testing::InitGoogleTest(&argc, argv);
  if (int status = without_devices(); status >= 0) return status;
  return run_all_tests(argc, argv);
}
