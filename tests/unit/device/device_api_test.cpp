// SPDX-License-Identifier: Apache-2.0
// The C functions of fairlead/device.h on the simulated GPU, and single-source kernels run by name.

#include <fairlead/device.h>
#include <fairlead/kernel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "device/runtime.h"
#include "kernels/pattern/pattern.h"

namespace {

using fairlead::kernels::pattern_word;

template <class T>
T* device_array(size_t count) {
  void* address = nullptr;
  EXPECT_EQ(fairlead_device_malloc(&address, count * sizeof(T)), 0) << fairlead_device_error_text();
  return static_cast<T*>(address);
}

template <class T>
std::vector<T> on_host(const T* device, size_t count) {
  std::vector<T> host(count);
  EXPECT_EQ(fairlead_device_copy(host.data(), device, count * sizeof(T)), 0) << fairlead_device_error_text();
  return host;
}

template <class... Types>
int launch(const char* kernel, unsigned grid, unsigned block, Types... values) {
  void* arguments[] = {&values...};
  return fairlead_device_launch(kernel, grid, block, arguments);
}

TEST(DeviceApi, without_an_error_the_text_says_so) {
  std::string text;
  std::thread([&] { text = fairlead_device_error_text(); }).join();
  EXPECT_EQ(text, "no error");
}

TEST(DeviceApi, names_the_provider_and_its_devices) {
  EXPECT_STREQ(fairlead_device_provider(), "sim");
  EXPECT_EQ(fairlead_device_count(), 2);
  std::string first = fairlead_device_name(0);
  EXPECT_NE(first, fairlead_device_name(1));
  EXPECT_STRNE(fairlead_device_pci(1), "");
  EXPECT_STREQ(fairlead_device_name(2), "");
  EXPECT_STREQ(fairlead_device_pci(-1), "");
}

TEST(DeviceApi, current_device_is_where_memory_is_allocated) {
  int device = -1;
  ASSERT_EQ(fairlead_device_set(1), 0);
  ASSERT_EQ(fairlead_device_get(&device), 0);
  EXPECT_EQ(device, 1);
  fairlead::device::Allocation found;
  ASSERT_EQ(fairlead::device::whole_runtime()->query(device_array<char>(1), &found),
            fairlead::device::Error::none);
  EXPECT_EQ(found.device, 1);
  EXPECT_NE(fairlead_device_set(2), 0);
  EXPECT_STRNE(fairlead_device_error_text(), "");
  ASSERT_EQ(fairlead_device_set(0), 0);
}

TEST(DeviceApi, every_kind_of_memory_is_filled_copied_and_freed) {
  void *managed = nullptr, *pinned = nullptr, *nothing = &managed;
  ASSERT_EQ(fairlead_device_malloc_managed(&managed, 100), 0);
  ASSERT_EQ(fairlead_device_malloc_host(&pinned, 100), 0);
  char* device = device_array<char>(100);
  ASSERT_EQ(fairlead_device_fill(device, 7, 100), 0);
  ASSERT_EQ(fairlead_device_copy(managed, device, 100), 0);
  ASSERT_EQ(fairlead_device_copy(pinned, managed, 100), 0);
  EXPECT_EQ(static_cast<char*>(managed)[99], 7);
  EXPECT_EQ(static_cast<char*>(pinned)[99], 7);
  EXPECT_EQ(fairlead_device_free(device), 0);
  EXPECT_NE(fairlead_device_free(device), 0);
  EXPECT_EQ(fairlead_device_free(managed), 0);
  for (fairlead_device_memory kind : {FAIRLEAD_MEMORY_POOL, FAIRLEAD_MEMORY_VIRTUAL}) {
    void* address = nullptr;
    ASSERT_EQ(fairlead_device_allocate(&address, 100, kind), 0);
    ASSERT_EQ(fairlead_device_fill(address, 7, 100), 0);
    EXPECT_EQ(on_host(static_cast<char*>(address), 100), std::vector<char>(100, 7));
    EXPECT_EQ(fairlead_device_free(address), 0);
  }
  EXPECT_EQ(fairlead_device_free_host(pinned), 0);
  EXPECT_EQ(fairlead_device_malloc(&nothing, 0), 0);
  EXPECT_EQ(nothing, nullptr);
  EXPECT_EQ(fairlead_device_free(nullptr), 0);
  EXPECT_EQ(fairlead_device_free_host(nullptr), 0);
}

TEST(DeviceApi, streams_run_in_order_and_events_order_them) {
  fairlead_device_stream *first, *second;
  fairlead_device_event* event;
  ASSERT_EQ(fairlead_device_stream_create(&first), 0) << fairlead_device_error_text();
  ASSERT_EQ(fairlead_device_stream_create(&second), 0);
  ASSERT_EQ(fairlead_device_event_create(&event), 0);
  EXPECT_NE(fairlead_device_stream_native(first), fairlead_device_stream_native(second));
  auto* bytes = device_array<char>(64);
  char seen[64] = {};
  int called = 0;
  ASSERT_EQ(fairlead_device_fill_on(first, bytes, 7, 64), 0);
  ASSERT_EQ(fairlead_device_event_record(event, first), 0);
  ASSERT_EQ(fairlead_device_event_wait(event, second), 0);
  void* arguments[] = {&bytes};
  ASSERT_EQ(fairlead_device_launch_on(second, "touch", 1, 1, arguments), 0) << fairlead_device_error_text();
  ASSERT_EQ(fairlead_device_copy_on(second, seen, bytes, 64), 0);
  ASSERT_EQ(fairlead_device_call_on(
                second, [](void* count) { ++*static_cast<int*>(count); }, &called),
            0);
  int state;
  while ((state = fairlead_device_stream_query(second)) == FAIRLEAD_DEVICE_NOT_READY)
    std::this_thread::yield();
  EXPECT_EQ(state, 0);
  EXPECT_EQ(fairlead_device_event_query(event), 0);
  EXPECT_EQ(seen[0], 1);
  EXPECT_EQ(seen[63], 7);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(fairlead_device_event_destroy(event), 0);
  for (auto* stream : {first, second}) EXPECT_EQ(fairlead_device_stream_destroy(stream), 0);
  EXPECT_NE(fairlead_device_stream_synchronize(first), 0);
  EXPECT_EQ(fairlead_device_free(bytes), 0);
}

TEST(DeviceApi, graphs_repeat_and_streams_are_adopted) {
  fairlead_device_stream *stream, *adopted, *standard;
  fairlead_device_graph* graph;
  ASSERT_EQ(fairlead_device_stream_create(&stream), 0);
  ASSERT_EQ(fairlead_device_stream_adopt(&adopted, fairlead_device_stream_native(stream)), 0);
  ASSERT_EQ(fairlead_device_stream_adopt(&standard, nullptr), 0);
  EXPECT_EQ(fairlead_device_stream_native(adopted), fairlead_device_stream_native(stream));
  int called = 0;
  ASSERT_EQ(fairlead_device_capture_begin(stream), 0);
  ASSERT_EQ(fairlead_device_call_on(
                adopted, [](void* count) { ++*static_cast<int*>(count); }, &called),
            0);
  ASSERT_EQ(fairlead_device_capture_end(adopted, &graph), 0) << fairlead_device_error_text();
  for (auto* on : {stream, adopted, standard}) {
    ASSERT_EQ(fairlead_device_graph_launch(graph, on), 0);
    ASSERT_EQ(fairlead_device_stream_synchronize(on), 0);
  }
  EXPECT_EQ(called, 3);
  EXPECT_EQ(fairlead_device_graph_destroy(graph), 0);
  for (auto* one : {standard, adopted, stream}) EXPECT_EQ(fairlead_device_stream_destroy(one), 0);
}

TEST(DeviceKernels, pattern_is_written_and_checked_on_the_device) {
  constexpr unsigned long count = 10000;
  auto* words = device_array<unsigned long>(count);
  auto* mismatches = device_array<unsigned long>(1);
  ASSERT_EQ(fairlead_device_fill(mismatches, 0, sizeof *mismatches), 0);
  ASSERT_EQ(launch("fill_pattern", 3, 64, words, count, 42ul), 0) << fairlead_device_error_text();
  auto host = on_host(words, count);
  for (unsigned long i = 0; i < count; ++i) ASSERT_EQ(host[i], pattern_word(42, i));
  ASSERT_EQ(launch("check_pattern", 7, 32, words, count, 42ul, mismatches), 0);
  EXPECT_EQ(on_host(mismatches, 1)[0], 0u);

  // Two wrong words, and every word against another seed.
  host[17] ^= 1;
  host[count - 1] ^= 1ul << 63;
  ASSERT_EQ(fairlead_device_copy(words, host.data(), count * sizeof *words), 0);
  ASSERT_EQ(launch("check_pattern", 7, 32, words, count, 42ul, mismatches), 0);
  EXPECT_EQ(on_host(mismatches, 1)[0], 2u);
  ASSERT_EQ(launch("check_pattern", 7, 32, words, count, 43ul, mismatches), 0);
  EXPECT_EQ(on_host(mismatches, 1)[0], count + 2);
}

TEST(DeviceKernels, arguments_are_taken_by_their_types_at_the_time_of_the_launch) {
  struct Pair {
    double factor;
    char padding[100];
    int summand;
  } by{3, {}, 1};
  std::vector<double> host = {1, 2, 3};
  auto* x = device_array<double>(3);
  ASSERT_EQ(fairlead_device_copy(x, host.data(), 24), 0);
  unsigned char count = 2;
  const int* absent = nullptr;
  void* arguments[] = {&x, &by, &count, &absent};
  ASSERT_EQ(fairlead_device_launch("scale_and_add", 1, 32, arguments), 0) << fairlead_device_error_text();
  by.factor = 0;
  EXPECT_EQ(on_host(x, 3), (std::vector<double>{4, 7, 3}));
}

TEST(DeviceKernels, launches_are_work_of_the_application) {
  using fairlead::device::Error;
  fairlead::device::Runtime& gpu = *fairlead::device::whole_runtime();
  void* memory = nullptr;
  ASSERT_EQ(fairlead_device_malloc_host(&memory, sizeof(int)), 0);
  auto* over = static_cast<volatile int*>(memory);
  *over = 0;
  ASSERT_EQ(launch("run_until", 1, 1, over), 0) << fairlead_device_error_text();
  EXPECT_EQ(gpu.query_application(0), Error::not_ready);
  EXPECT_EQ(gpu.query_application(1), Error::none);
  *over = 1;
  ASSERT_EQ(fairlead_device_synchronize(), 0);
  EXPECT_EQ(gpu.query_application(0), Error::none);
  EXPECT_EQ(fairlead_device_free_host(memory), 0);
}

TEST(DeviceKernels, threads_know_their_place) {
  auto* out = device_array<unsigned>(12);
  ASSERT_EQ(launch("write_positions", 3, 4, out), 0) << fairlead_device_error_text();
  auto positions = on_host(out, 12);
  for (unsigned i = 0; i < 12; ++i) EXPECT_EQ(positions[i], i / 4 * 1000000 + i % 4 * 10000 + 4 * 100 + 3);
}

TEST(DeviceKernels, pointers_in_a_parameter_reach_their_memory) {
  auto* out = device_array<unsigned>(2);
  auto* first = device_array<unsigned>(1);
  auto* third = device_array<unsigned>(5);
  for (auto [array, bytes] : {std::pair{out, 8}, {first, 4}, {third, 20}})
    ASSERT_EQ(fairlead_device_fill(array, 0, static_cast<size_t>(bytes)), 0);
  unsigned five = 5, seven = 7;
  ASSERT_EQ(fairlead_device_copy(first, &five, sizeof five), 0);
  ASSERT_EQ(fairlead_device_copy(third + 4, &seven, sizeof seven), 0);
  ASSERT_EQ(launch("add_firsts", 1, 32, out, fairlead::kernel::Pointers<3>{{first, nullptr, third + 4}}), 0);
  EXPECT_EQ(on_host(out, 2), (std::vector<unsigned>{32 * 12, 32 * 12}));

  struct {
    unsigned* to;
    unsigned amount;
  } addition{third, 3};
  ASSERT_EQ(launch("add_amount", 2, 4, addition), 0);
  EXPECT_EQ(on_host(third, 1), std::vector<unsigned>{8 * 3});

  unsigned local = 0;
  ASSERT_EQ(launch("add_firsts", 1, 1, out, fairlead::kernel::Pointers<3>{{first, &local, nullptr}}), 0);
  EXPECT_NE(fairlead_device_synchronize(), 0);
  EXPECT_NE(strstr(fairlead_device_error_text(), "add_firsts"), nullptr) << fairlead_device_error_text();
}

TEST(DeviceKernels, addresses_that_the_gpu_cannot_reach_fail_the_launch) {
  char local = 0;
  ASSERT_EQ(launch("touch", 1, 1, &local), 0);
  EXPECT_NE(fairlead_device_synchronize(), 0);
  EXPECT_NE(strstr(fairlead_device_error_text(), "touch"), nullptr) << fairlead_device_error_text();
  EXPECT_EQ(local, 0);

  auto* freed = device_array<char>(1);
  ASSERT_EQ(fairlead_device_free(freed), 0);
  ASSERT_EQ(launch("touch", 1, 1, freed), 0);
  EXPECT_NE(fairlead_device_synchronize(), 0);

  ASSERT_EQ(fairlead_device_set(1), 0);
  auto* on_peer = device_array<char>(1);
  ASSERT_EQ(fairlead_device_set(0), 0);
  ASSERT_EQ(launch("touch", 1, 1, on_peer), 0);
  EXPECT_NE(fairlead_device_synchronize(), 0);
  EXPECT_NE(strstr(fairlead_device_error_text(), "peer"), nullptr) << fairlead_device_error_text();
  ASSERT_EQ(fairlead::device::whole_runtime()->enable_peer(0, 1), fairlead::device::Error::none);
  ASSERT_EQ(launch("touch", 1, 1, on_peer), 0);
  EXPECT_EQ(fairlead_device_synchronize(), 0) << fairlead_device_error_text();
  EXPECT_EQ(on_host(on_peer, 1)[0], 1);
}

TEST(DeviceKernels, impossible_launches_are_refused) {
  auto* x = device_array<char>(1);
  EXPECT_NE(launch("touch", 0, 1, x), 0);
  EXPECT_NE(launch("touch", 1, 1025, x), 0);
  EXPECT_NE(launch("no_such_kernel", 1, 1, x), 0);
  EXPECT_NE(strstr(fairlead_device_error_text(), "no_such_kernel"), nullptr) << fairlead_device_error_text();
  EXPECT_NE(launch(nullptr, 1, 1, x), 0);
}

TEST(DeviceKernels, kernel_without_code_for_this_gpu_says_so) {
  static const unsigned char bytes[] = {0};
  static const fairlead_code_image images[] = {{"ptx", bytes, sizeof bytes}};
  fairlead_device_add_kernel("only_for_cuda", images, 1);
  void* none[] = {nullptr};
  EXPECT_NE(fairlead_device_launch("only_for_cuda", 1, 1, none), 0);
  EXPECT_STREQ(fairlead_device_error_text(),
               "kernel only_for_cuda was built without device code for sim; build with clang");
}

}  // namespace
