// SPDX-License-Identifier: Apache-2.0
// Small copies by the CPU: they show the device's bytes, change nothing else, and leave the rest to the
// engine.

#include "device/copies/bar.h"

#include "device/copies/small_copy.h"
#include "sim/sim_fixture.h"

namespace fairlead::device {
namespace {

int engine_copies = 0;

Error engine_copy(int device, void* to, const void* from, size_t bytes) {
  ++engine_copies;
  Stream stream = nullptr;
  Error error = whole_runtime()->create_stream(device, &stream);
  if (error == Error::none) error = whole_runtime()->copy(to, from, bytes, stream);
  if (error == Error::none) error = whole_runtime()->synchronize_stream(stream);
  whole_runtime()->destroy_stream(stream);
  return error;
}

constexpr SmallCopies engine{engine_copy, engine_copy};

class Bar : public SimTest {};

TEST_F(Bar, the_faster_cpu_copies_both_ways_after_one_measurement) {
  constexpr size_t bytes = 10000;
  char* memory = device_memory(bytes);
  fill(memory, 1, bytes);
  std::vector<unsigned char> out(small_copy_bytes, 2), in(small_copy_bytes, 0);
  ASSERT_TRUE(bar_write(0, memory + 3, out.data(), 100, engine));
  int measured = engine_copies;
  EXPECT_GT(measured, 0);
  std::vector<unsigned char> wanted(bytes, 1);
  std::fill_n(wanted.begin() + 3, 100, 2);
  EXPECT_EQ(read(memory, bytes), wanted);
  ASSERT_TRUE(bar_read(0, in.data(), memory + 2, 102, engine));
  EXPECT_EQ(std::vector<unsigned char>(in.begin(), in.begin() + 102),
            std::vector<unsigned char>(wanted.begin() + 2, wanted.begin() + 104));
  EXPECT_EQ(in[102], 0);
  EXPECT_TRUE(bar_write(0, memory, out.data(), small_copy_bytes, engine));
  EXPECT_EQ(engine_copies, measured);
}

TEST_F(Bar, long_empty_and_foreign_copies_are_the_engines) {
  char* memory = device_memory(2 * small_copy_bytes);
  std::vector<unsigned char> host(2 * small_copy_bytes);
  EXPECT_FALSE(bar_write(0, memory, host.data(), small_copy_bytes + 1, engine));
  EXPECT_FALSE(bar_read(0, host.data(), memory, small_copy_bytes + 1, engine));
  EXPECT_FALSE(bar_read(0, host.data(), memory, 0, engine));
  EXPECT_FALSE(bar_read(0, host.data(), memory + 2 * small_copy_bytes - 10, 11, engine));
  EXPECT_FALSE(bar_read(0, host.data(), host.data() + 100, 10, engine));
}

TEST_F(Bar, needs_bar_off_the_engine_copies_all) {
  char* memory = device_memory(100);
  unsigned char host[100] = {};
  EXPECT_FALSE(bar_write(0, memory, host, 8, engine));
  EXPECT_FALSE(bar_read(0, host, memory, 8, engine));
  EXPECT_EQ(engine_copies, 0);
}

TEST_F(Bar, needs_no_mapping_the_engine_copies_all) {
  char* memory = device_memory(100);
  unsigned char host[100] = {};
  EXPECT_FALSE(bar_write(0, memory, host, 8, engine));
  EXPECT_FALSE(bar_read(0, host, memory, 8, engine));
}

}  // namespace
}  // namespace fairlead::device
