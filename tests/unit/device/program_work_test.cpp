// SPDX-License-Identifier: Apache-2.0
//
// What the program's work may access, and what order waits establish, without any GPU. The rank test theme
// `races` has whole programs.

#include <gtest/gtest.h>

#include <cstdlib>

#include "device/program/calls.h"
#include "device/program/hip_abi.h"
#include "device/program/work.h"

extern "C" int rocprofiler_register_library_api_table(const char* name, uint32_t (*import)(),
                                                      uint32_t version, void** tables, uint64_t count,
                                                      uint64_t* id);

namespace fairlead::device::program {
namespace {

TEST(Kernels, are_judged_by_the_types_of_their_parameters) {
  constexpr Access reads = Access::reads, unknown = Access::unknown;
  EXPECT_EQ(accesses_of("_Z6smoothPdPKdi"), (std::vector{unknown, reads, unknown}));
  EXPECT_EQ(accesses_of("_Z4copyIdEvPT_PKS0_m"), (std::vector{unknown, reads, unknown}));  // copy<double>
  EXPECT_EQ(accesses_of("_Z5applyIXadL_Z3addiiEEEvPKiPi"),
            (std::vector{reads, unknown}));                                           // apply<&add(int, int)>
  EXPECT_EQ(accesses_of("_ZL5readsPKdPdi"), (std::vector{reads, unknown, unknown}));  // static
  EXPECT_EQ(accesses_of("_ZL5readsPKdPdi.intern.b04f0ac1"), (std::vector{reads, unknown, unknown}));
  EXPECT_EQ(kernel_name("_ZL5readsPKdPdi.intern.b04f0ac1"), kernel_name("_ZL5readsPKdPdi"));
  EXPECT_TRUE(accesses_of("triton_add").empty());
  EXPECT_TRUE(accesses_of("").empty());
}

// Loading a library may take locks that another thread holds while it shows tables.
TEST(Watching, needs_a_driver_that_shows_tables) {
  watch({"cuda", nullptr, nullptr, nullptr});
  EXPECT_FALSE(seen());
}

// HIP's, as ROCm shows it.
struct {
  size_t size = sizeof *this;
  void* functions[200] = {};
} table;
void show_table(const char* name) {
  void* tables[] = {&table};
  rocprofiler_register_library_api_table(name, nullptr, 60200, tables, 1, nullptr);
}
constexpr size_t event_destroy = 78;

class Order : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    unsetenv("FAIRLEAD_CHECK");
    for (const char* before_main : {"hsa", "hip", "hip_compiler"}) show_table(before_main);
    setenv("FAIRLEAD_DEVICE", "sim", 1);
    setenv("FAIRLEAD_CHECK", "accesses", 1);
    setenv("FAIRLEAD_LOG", "info", 1);
    watch({"sim", [](const void*) { return false; }, [](const void* address) { return address == &pageable; },
           [](const void*) { return true; }});
    ASSERT_TRUE(seen());
    table.functions[event_destroy] = reinterpret_cast<void*>(+[](const void* event) {
      recorded(event, {&context, nullptr});
      return 0;
    });
    show_table("hip");
  }
  static StreamKey made(int number, StreamSort sort = StreamSort::alone) {
    const StreamKey key{nullptr, reinterpret_cast<const void*>(static_cast<uintptr_t>(0x1000 + number))};
    stream_made(key, &context, sort);
    return key;
  }
  static void write(const StreamKey& stream) { submitted(stream, fill(memory, sizeof memory)); }
  static Verdict verdict() {
    const auto at = reinterpret_cast<uintptr_t>(memory);
    return conflict_of({at, sizeof memory, false, false, at, sizeof memory}).verdict;
  }
  void TearDown() override {
    host_waited_for_context(nullptr);
    EXPECT_EQ(verdict(), Verdict::none);
  }
  static char memory[64], pageable, context;
};
char Order::memory[64], Order::pageable, Order::context;

TEST_F(Order, of_the_legacy_default_stream_and_blocking_ones) {
  const StreamKey legacy{&context, nullptr}, blocking = made(1, StreamSort::blocking), alone = made(2);
  write(blocking);
  host_waited(legacy);
  EXPECT_EQ(verdict(), Verdict::none);
  write(legacy);
  submitted(blocking, host_function());
  host_waited(blocking);
  EXPECT_EQ(verdict(), Verdict::none);
  write(alone);
  host_waited(legacy);
  EXPECT_EQ(verdict(), Verdict::certain);
  host_waited(alone);
  write(legacy);
  host_waited(blocking);  // in which nothing is behind it
  EXPECT_EQ(verdict(), Verdict::certain);
}

TEST_F(Order, of_a_stream_whose_capture_failed) {
  const StreamKey stream = made(7), other = made(8);
  capture_began(stream);
  write(stream);
  recorded(&stream, stream);
  EXPECT_EQ(verdict(), Verdict::none);
  capture_ended(stream, nullptr);
  stream_waits(other, &stream);  // an event of a capture that is over
  write(other);
  EXPECT_EQ(verdict(), Verdict::certain);
  host_waited(other);
  write(stream);
  EXPECT_EQ(verdict(), Verdict::certain);
}

TEST_F(Order, goes_on_anew_after_a_reset) {
  write(made(9));
  devices_reset();
  EXPECT_EQ(verdict(), Verdict::none);
}

TEST_F(Order, of_a_handle_that_is_used_again) {
  const StreamKey first = made(3);
  write(first);
  stream_ended(first);
  host_waited(made(3));
  EXPECT_EQ(verdict(), Verdict::certain);
}

TEST_F(Order, of_the_default_stream_does_not_end) {
  const StreamKey legacy{&context, nullptr};
  write(legacy);
  stream_ended(legacy);  // which the driver refuses
  host_waited(legacy);
  EXPECT_EQ(verdict(), Verdict::none);
}

TEST_F(Order, of_copies_with_pageable_memory) {
  const StreamKey stream = made(10);
  for (const bool reading_waits : {false, true}) {
    write(stream);
    copied(stream, copy(&pageable, memory, 1), reading_waits);
    EXPECT_EQ(verdict(), Verdict::none);
    copied(stream, copy(memory, &pageable, 1), reading_waits);
    EXPECT_EQ(verdict(), reading_waits ? Verdict::none : Verdict::certain);
    host_waited(stream);
    write(stream);
    copied(stream, copy(memory, memory, 1), reading_waits);
    EXPECT_EQ(verdict(), Verdict::certain);
    capture_began(stream);
    copied(stream, copy(&pageable, memory, 1), reading_waits);
    capture_ended(stream, nullptr);
    EXPECT_EQ(verdict(), Verdict::certain);
    host_waited(stream);
  }
}

// The host may have learnt from it of what it has waited for.
TEST_F(Order, of_another_stream_that_may_tell_the_host) {
  const StreamKey a = made(11), b = made(12);
  recorded(&a, a);
  write(a);
  stream_waits(b, &a);  // recorded too early
  submitted(b, host_function());
  EXPECT_EQ(verdict(), Verdict::certain);
  recorded(&a, a);
  stream_waits(b, &a);
  EXPECT_EQ(verdict(), Verdict::possible);
  host_waited(b);
}

TEST_F(Order, of_graphs_that_are_built_node_by_node) {
  const StreamKey stream = made(13);
  write(stream);
  graph_instantiated(&stream, &context);
  graph_launched(&stream, stream);
  EXPECT_EQ(verdict(), Verdict::possible);
}

// Another thread's new event, while the call returns in which the former one ends.
TEST_F(Order, of_a_handle_of_HIP_that_is_used_again_at_once) {
  write({&context, nullptr});
  reinterpret_cast<int (*)(const void*)>(table.functions[event_destroy])(&table);
  host_waited_for_event(&table);
  EXPECT_EQ(verdict(), Verdict::none);
}

TEST_F(Order, of_a_second_HIP_is_unknown) {
  testing::internal::CaptureStderr();
  show_table("hip");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("a second HIP"), std::string::npos);
}

TEST_F(Order, through_events_of_events) {
  const StreamKey a = made(4), b = made(5), c = made(6);
  write(a);
  recorded(&a, a);
  stream_waits(b, &a);
  recorded(&b, b);
  stream_waits(c, &b);
  write(b);
  host_waited(c);
  EXPECT_EQ(verdict(), Verdict::certain);  // of the second
  host_waited(b);
  EXPECT_EQ(verdict(), Verdict::none);
}

// By its parameter, a kernel may access all of `memory`, of which MPI has used the first half.
TEST_F(Order, asks_what_kernels_have_accessed) {
  const auto at = reinterpret_cast<uintptr_t>(memory);
  const Buffer half{at, 32, false, false, at, sizeof memory},
      received{at, 32, false, true, at, sizeof memory};
  const Buffer quarters[] = {{at, 16, false, false, at, sizeof memory},
                             {at + 16, 16, false, false, at, sizeof memory}};
  freed(memory, 1);  // forgets what other tests have made MPI use
  for (const Buffer& quarter : quarters) (void)conflict_of(quarter);
  ASSERT_EQ(watched_bytes()->size(), 1u);
  EXPECT_EQ(watched_bytes()->front().begin, at);
  EXPECT_EQ(watched_bytes()->front().end, at + 32);
  const StreamKey stream = made(10);
  const auto launch = [&](std::vector<Touched> accessed) {
    host_waited(stream);
    submitted(stream, {.name = "kernel",
                       .touched = {{at + 8, 0}},
                       .watched = watched_bytes(),
                       .accessed = std::move(accessed)});
  };
  launch({});
  EXPECT_EQ(conflict_of(half).verdict, Verdict::none);
  EXPECT_EQ(verdict(), Verdict::certain);  // by the parameter: not all of it was watched
  launch({{at + 12, 4, Access::writes}});
  EXPECT_EQ(conflict_of(quarters[0]).verdict, Verdict::certain);
  EXPECT_EQ(conflict_of(quarters[1]).verdict, Verdict::none);
  launch({{at + 12, 4, Access::reads}});
  EXPECT_EQ(conflict_of(half).verdict, Verdict::none);
  EXPECT_EQ(conflict_of(received).verdict, Verdict::certain);
  launch({{at + 12, 4, Access::writes, true}});
  EXPECT_EQ(conflict_of(quarters[0]).verdict, Verdict::possible);
  // What a graph copies is known besides.
  const StreamKey captures = made(11);
  const int graph = 0;
  host_waited(stream);
  capture_began(captures);
  submitted(captures, {"kernel", {{at, 0}}});
  submitted(captures, fill(memory + 4, 4));
  capture_ended(captures, &graph);
  graph_launched(
      &graph, stream,
      {.name = "", .touched = {}, .watched = watched_bytes(), .accessed = {{at + 12, 4, Access::reads}}});
  EXPECT_EQ(conflict_of(quarters[0]).verdict, Verdict::certain);
  EXPECT_EQ(conflict_of(quarters[1]).verdict, Verdict::none);
  graph_ended(&graph);
  freed(memory, 1);
  EXPECT_TRUE(watched_bytes()->empty());
  EXPECT_EQ(conflict_of(quarters[0]).verdict, Verdict::none);
}

}  // namespace
}  // namespace fairlead::device::program
