// SPDX-License-Identifier: Apache-2.0
//
// What is known of a launch's accesses, with a Sanitizer API that patches nothing: the test makes the
// accesses.

#include "device/program/accesses.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "device/program/accesses_record.h"
#include "device/program/sanitizer_abi.h"

namespace {

void* record = nullptr;  // of the launch under way
int patched = 0;

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API sanitizerAddPatches(const void*, const void*) {
  return 0;
}
API sanitizerPatchInstructions(int, const void*, const char*) {
  return 0;
}
API sanitizerPatchModule(const void*) {
  ++patched;
  return 0;
}
API sanitizerSetLaunchCallbackData(const void*, const void*, const void*, const void* data) {
  record = const_cast<void*>(data);
  return 0;
}
API sanitizerAlloc(const void*, void** memory, size_t bytes) {
  *memory = std::memset(std::malloc(bytes), 0x5a, bytes);
  return 0;
}
API sanitizerFree(const void*, void* memory) {
  std::free(memory);
  return 0;
}
API sanitizerMemcpyHostToDeviceAsync(void* to, const void* from, size_t bytes, const void*) {
  std::memcpy(to, from, bytes);
  return 0;
}
API sanitizerMemcpyDeviceToHost(void* to, const void* from, size_t bytes, const void*) {
  std::memcpy(to, from, bytes);
  return 0;
}
API sanitizerMemset(void* memory, int value, size_t bytes, const void*) {
  std::memset(memory, value, bytes);
  return 0;
}

namespace fairlead::device::program {
namespace {

class Accesses : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("FAIRLEAD_CHECK", "accesses", 1);
    watch({.name = "sim",
           .host_may_read = [](const void*) { return false; },
           .is_pageable = [](const void*) { return false; },
           .is_busy = [](const void*) { return true; }});
    const char* why_not = nullptr;
    (void)can_record_accesses(dlopen(nullptr, RTLD_NOW), &why_not);
    ASSERT_STREQ(why_not, "Fairlead was built without clang or NVIDIA's ptxas");  // that may be
    const sanitizer::OfModule module{&context, &code};
    call(sanitizer::domain_resource, sanitizer::module_loaded, &module);
    ASSERT_EQ(patched, 1);
  }
  static void call(int domain, unsigned number, const void* data) {
    for (const AccessCallback& callback : access_callbacks)
      if (callback.domain == domain && callback.number == number) callback.handle(data);
  }
  static void watch_bytes(size_t from, size_t bytes) {
    (void)conflict_of({at(from), bytes, false, false, at(0), sizeof memory});
  }
  static uintptr_t at(size_t offset) { return reinterpret_cast<uintptr_t>(memory) + offset; }

  template <class Kernel>
  static Work launch(Kernel kernel, const void* module = &code) {
    Work work;
    record = nullptr;
    launch_begins();
    const sanitizer::OfLaunch to = of(module);
    call(sanitizer::domain_launch, sanitizer::launch_begin, &to);
    kernel();
    launch_ends(&work);
    return work;
  }
  static sanitizer::OfLaunch of(const void* module) {
    sanitizer::OfLaunch to{};
    to.on.context = &context;
    to.module = module;
    return to;
  }
  static void begin_node(const void* module, int type = sanitizer::kernel_node) {
    const sanitizer::OfNodeLaunch node{nullptr, 0, nullptr, type, of(module)};
    call(sanitizer::domain_graphs, sanitizer::node_launch_begin, &node);
  }
  // Of a kernel, a copy, and another kernel.
  static Work launch_graph(const void* module) {
    Work work;
    record = nullptr;
    launch_begins();
    const sanitizer::OfStream on{&context, nullptr, nullptr};
    call(sanitizer::domain_graphs, sanitizer::graph_launch_begin, &on);
    begin_node(&code);
    access(0, 4, true, false);
    begin_node(module, sanitizer::kernel_node + 1);
    begin_node(module);
    if (record) access(4, 4, false, true);
    launch_ends(&work);
    return work;
  }
  static void access(size_t from, size_t bytes, bool reads, bool writes) {
    EXPECT_EQ(record_access(record, at(from), bytes, reads, writes), 0);
  }
  void TearDown() override { freed(memory, 1); }

  alignas(32) static char memory[512], context, code;
};
alignas(32) char Accesses::memory[512], Accesses::context, Accesses::code;

TEST_F(Accesses, are_those_to_watched_bytes) {
  watch_bytes(40, 100);
  watch_bytes(200, 8);
  const Work work = launch([] {
    access(36, 8, false, true);
    access(44, 100, true, false);
    access(180, 40, true, true);
  });
  ASSERT_EQ(work.accessed.size(), 4u);
  const Touched expected[] = {{at(44), 96, Access::reads},
                              {at(200), 8, Access::reads},
                              {at(40), 4, Access::writes},
                              {at(200), 8, Access::writes}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(work.accessed[i].address, expected[i].address);
    EXPECT_EQ(work.accessed[i].bytes, expected[i].bytes);
    EXPECT_EQ(work.accessed[i].access, expected[i].access);
  }
  EXPECT_EQ(work.watched, watched_bytes());
  EXPECT_TRUE(launch([] {}).accessed.empty());  // nothing is left of the launch before
}

TEST_F(Accesses, of_other_modules_are_not_known) {
  watch_bytes(0, 8);
  EXPECT_EQ(launch([] {}, &context).watched, nullptr);
  EXPECT_EQ(record, nullptr);
  EXPECT_NE(launch([] {}).watched, nullptr);
}

TEST_F(Accesses, of_graphs_are_those_of_all_their_kernels) {
  watch_bytes(0, 8);
  const Work work = launch_graph(&code);
  ASSERT_EQ(work.watched, watched_bytes());
  ASSERT_EQ(work.accessed.size(), 2u);
  EXPECT_EQ(work.accessed[0].address, at(0));
  EXPECT_EQ(work.accessed[1].address, at(4));
  EXPECT_EQ(launch_graph(&context).watched, nullptr);
  EXPECT_NE(launch_graph(&code).watched, nullptr);
}

// The library passes it anything else.
TEST_F(Accesses, a_kernel_of_a_graph_that_is_not_recorded_gets_null) {
  record = memory;
  begin_node(&code);
  EXPECT_EQ(record, nullptr);
}

// Byte by byte, as a set says.
TEST_F(Accesses, are_known_to_the_byte) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::set<size_t> watched, read, written;
    for (unsigned k = random() % 8 + 1; k > 0; --k) {
      const size_t from = random() % 500, bytes = random() % 12 + 1;
      watch_bytes(from, bytes);
      for (size_t byte = from; byte < from + bytes; ++byte) watched.insert(byte);
    }
    const Work work = launch([&] {
      for (unsigned k = random() % 20; k > 0; --k) {
        const size_t from = random() % 480, bytes = 1u << random() % 6;
        const bool reads = random() % 2, writes = random() % 2;
        access(from, bytes, reads, writes);
        for (size_t byte = from; byte < from + bytes; ++byte) {
          if (reads && watched.contains(byte)) read.insert(byte);
          if (writes && watched.contains(byte)) written.insert(byte);
        }
      }
    });
    for (const Touched& one : work.accessed)
      for (uintptr_t byte = one.address; byte < one.address + one.bytes; ++byte)
        EXPECT_EQ((one.access == Access::reads ? read : written).erase(byte - at(0)), 1u);
    EXPECT_TRUE(read.empty() && written.empty());
    freed(memory, 1);
  }
}

}  // namespace
}  // namespace fairlead::device::program
