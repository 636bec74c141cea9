// SPDX-License-Identifier: Apache-2.0
//
// One test of the runtime contract for every provider: FAIRLEAD_DEVICE says which (sim, cuda, rocm). Exits
// with 77 where that provider has no device. Cases that need a process of their own run this program again.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "device_runtime_fixture.h"
#include "device_runtime_kernel.h"

namespace fairlead::device {

int import_from_other_node(const char* text);  // other_nodes_test.cpp

namespace {

TEST(device_runtime, names_its_devices) {
  std::vector<std::string> uuids;
  for (int device = 0; device < devices(); ++device) {
    DeviceInfo info{};
    ASSERT_SUCCESS(gpu().device_info(device, &info));
    EXPECT_NE(info.name[0], '\0');
    EXPECT_EQ(std::strlen(info.pci), std::strlen("0000:1b:00.0")) << info.pci;
    EXPECT_GT(info.memory, 0u);
    EXPECT_GT(info.multiprocessors, 0);
    uuids.emplace_back(reinterpret_cast<const char*>(info.uuid), sizeof info.uuid);
  }
  std::sort(uuids.begin(), uuids.end());
  EXPECT_EQ(std::adjacent_find(uuids.begin(), uuids.end()), uuids.end()) << "two devices have one uuid";
  DeviceInfo untouched{};
  EXPECT_EQ(gpu().device_info(devices(), &untouched), Error::invalid_value);
  EXPECT_EQ(untouched.memory, 0u);
}

TEST(device_runtime, tells_kinds_of_memory_apart) {
  constexpr size_t bytes = 100000;
  for (MemoryKind kind : every_kind) {
    Memory memory(kind, bytes);
    Allocation found;
    ASSERT_SUCCESS(gpu().query(memory.at(777), &found));
    EXPECT_EQ(found.kind, kind) << to_string(found.kind) << " instead of " << to_string(kind);
    if (kind == MemoryKind::host) {
      EXPECT_EQ(found.base, 0u);
      EXPECT_EQ(found.size, 0u);
      EXPECT_EQ(found.id, 0u);
      continue;
    }
    EXPECT_EQ(found.base, reinterpret_cast<uintptr_t>(memory.at())) << to_string(kind);
    EXPECT_GE(found.size, bytes) << to_string(kind);
    EXPECT_NE(found.id, 0u) << to_string(kind);
    EXPECT_EQ(found.exportable, kind == MemoryKind::device);
    EXPECT_TRUE(kind != MemoryKind::device || found.device == 0);
  }
  Allocation nowhere;
  EXPECT_SUCCESS(gpu().query(nullptr, &nowhere));
  EXPECT_EQ(nowhere.kind, MemoryKind::host);
}

TEST(device_runtime, freed_memory_is_unknown_and_a_new_allocation_has_a_new_id) {
  std::vector<uint64_t> ids;
  for (int round = 0; round < 4; ++round) {
    void* address = nullptr;
    Allocation found;
    ASSERT_SUCCESS(gpu().allocate(0, 1 << 20, &address));
    ASSERT_SUCCESS(gpu().query(address, &found));
    ids.push_back(found.id);
    ASSERT_SUCCESS(gpu().free(address));
    ASSERT_SUCCESS(gpu().query(address, &found));
    EXPECT_NE(found.kind, MemoryKind::device) << "freed";
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "an id was used twice";
}

TEST(device_runtime, pool_and_virtual_memory_are_device_memory_with_an_identity) {
  constexpr size_t bytes = (21 << 20) + 3;
  StreamScope stream;
  for (auto allocate : {&Runtime::allocate_from_pool, &Runtime::allocate_virtual}) {
    std::vector<uint64_t> ids;
    for (int round = 0; round < 3; ++round) {
      void* made = nullptr;
      Error error = (gpu().*allocate)(0, bytes, &made);
      if (error == Error::not_supported) GTEST_SKIP() << gpu().error_text();
      ASSERT_SUCCESS(error);
      auto* start = static_cast<unsigned char*>(made);
      for (size_t at : {size_t{0}, bytes / 2, bytes - 1}) {
        Allocation found;
        ASSERT_SUCCESS(gpu().query(start + at, &found));
        auto address = reinterpret_cast<uintptr_t>(start) + at;
        EXPECT_EQ(found.kind, MemoryKind::device);
        EXPECT_EQ(found.device, 0);
        EXPECT_LE(found.base, address);
        EXPECT_LT(address - found.base, found.size);
        EXPECT_NE(found.id, 0u);
        if (at == 0) ids.push_back(found.id);
      }
      Bytes content = pattern(bytes, round);
      stream.copy(start, content.data(), bytes);
      EXPECT_TRUE(bytes_of(start, bytes, stream) == content);
      EXPECT_SUCCESS(gpu().free(start));
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "an id was used twice";
  }
}

TEST(device_runtime, copies_between_all_kinds_at_any_offset) {
  constexpr size_t room = 70000;
  StreamScope stream;
  for (MemoryKind from_kind : every_kind) {
    for (MemoryKind to_kind : every_kind) {
      Memory from(from_kind, room), to(to_kind, room);
      Bytes source = pattern(room, 1), target = pattern(room, 99);
      stream.copy(from.at(), source.data(), room);
      for (auto [from_at, to_at, bytes] : {std::tuple<size_t, size_t, size_t>{0, 0, room},
                                           {1, 3, 1},
                                           {5, 0, 4097},
                                           {4096, 63, 65000},
                                           {9, 9, 0}}) {
        stream.copy(to.at(), target.data(), room);
        stream.copy(to.at(to_at), from.at(from_at), bytes);
        Bytes expected = target;
        std::copy_n(source.begin() + from_at, bytes, expected.begin() + to_at);
        EXPECT_EQ(bytes_of(to.at(), room, stream), expected)
            << bytes << " bytes from " << to_string(from_kind) << " to " << to_string(to_kind);
      }
    }
  }
}

TEST(device_runtime, copies_rows) {
  constexpr size_t width = 37, height = 11, wide = 64, wider = 101;
  StreamScope stream;
  for (MemoryKind from_kind : every_kind) {
    for (MemoryKind to_kind : every_kind) {
      Memory from(from_kind, wide * height), to(to_kind, wider * height);
      Bytes source = pattern(wide * height, 7), expected = pattern(wider * height, 8);
      stream.copy(from.at(), source.data(), source.size());
      stream.copy(to.at(), expected.data(), expected.size());
      EXPECT_SUCCESS(gpu().copy_2d(to.at(), wider, from.at(), wide, width, height, stream));
      EXPECT_SUCCESS(gpu().synchronize_stream(stream));
      for (size_t row = 0; row < height; ++row) {
        std::copy_n(source.begin() + row * wide, width, expected.begin() + row * wider);
      }
      EXPECT_EQ(bytes_of(to.at(), expected.size(), stream), expected)
          << to_string(from_kind) << " to " << to_string(to_kind);
    }
  }
}

TEST(device_runtime, fills) {
  StreamScope stream;
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::managed}) {
    Memory memory(kind, 10000);
    Bytes expected = pattern(10000, 3);
    stream.copy(memory.at(), expected.data(), expected.size());
    EXPECT_SUCCESS(gpu().fill(memory.at(11), 0x1a5, 5001, stream));  // the low byte counts, as in memset
    EXPECT_SUCCESS(gpu().synchronize_stream(stream));
    std::fill_n(expected.begin() + 11, 5001, 0xa5);
    EXPECT_EQ(bytes_of(memory.at(), expected.size(), stream), expected) << to_string(kind);
  }
}

TEST(device_runtime, events_order_streams) {
  constexpr size_t bytes = 8 << 20;
  StreamScope first, second;
  Memory source(MemoryKind::pinned, bytes), middle(MemoryKind::device, bytes),
      last(MemoryKind::pinned, bytes);
  Event event = nullptr;
  ASSERT_SUCCESS(gpu().create_event(0, &event));
  EXPECT_SUCCESS(gpu().query_event(event)) << "never recorded";
  for (unsigned round = 0; round < 5; ++round) {
    Bytes expected = pattern(bytes, round);
    std::memcpy(source.at(), expected.data(), bytes);
    ASSERT_SUCCESS(gpu().copy(middle.at(), source.at(), bytes, first));
    ASSERT_SUCCESS(gpu().record_event(event, first));
    ASSERT_SUCCESS(gpu().wait_event(second, event));
    ASSERT_SUCCESS(gpu().copy(last.at(), middle.at(), bytes, second));
    Error state;
    while ((state = gpu().query_stream(second)) == Error::not_ready) std::this_thread::yield();
    ASSERT_EQ(state, Error::none) << words(state);
    EXPECT_SUCCESS(gpu().query_event(event));
    EXPECT_EQ(std::memcmp(last.at(), expected.data(), bytes), 0) << "round " << round;
  }
  EXPECT_SUCCESS(gpu().destroy_event(event));
  EXPECT_SUCCESS(gpu().synchronize(0));
}

TEST(device_runtime, registers_host_memory) {
  constexpr size_t bytes = 1 << 20;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(address, MAP_FAILED);
  Allocation found;
  ASSERT_SUCCESS(gpu().register_host(address, bytes));
  EXPECT_SUCCESS(gpu().register_host(address, bytes)) << "again";
  ASSERT_SUCCESS(gpu().query(static_cast<char*>(address) + 5000, &found));
  EXPECT_EQ(found.kind, MemoryKind::pinned);
  EXPECT_SUCCESS(gpu().unregister_host(address));
  ASSERT_SUCCESS(gpu().query(address, &found));
  EXPECT_EQ(found.kind, MemoryKind::host);
  munmap(address, bytes);
}

TEST(device_runtime, absurd_requests_fail_in_words) {
  void* untouched = &untouched;
  EXPECT_EQ(gpu().allocate(0, size_t{1} << 50, &untouched), Error::out_of_memory) << gpu().error_text();
  EXPECT_EQ(untouched, &untouched);
  EXPECT_STRNE(gpu().error_text(), "");
  for (int device : {-1, devices(), 1000}) {
    Stream stream = nullptr;
    EXPECT_EQ(gpu().allocate(device, 4096, &untouched), Error::invalid_value) << device;
    EXPECT_EQ(gpu().create_stream(device, &stream), Error::invalid_value) << device;
    EXPECT_STRNE(gpu().error_text(), "");
  }
  EXPECT_NE(gpu().ipc_import(0, IpcHandle{}, -1, &untouched), Error::none);
  EXPECT_EQ(untouched, &untouched);
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_SUCCESS(gpu().memory_info(0, &free_bytes, &total_bytes)) << "after errors";
  EXPECT_GT(free_bytes, 0u);
  EXPECT_LE(free_bytes, total_bytes);
}

TEST(device_runtime, the_cpu_mapping_shows_the_same_bytes) {
  StreamScope stream;
  Memory memory(MemoryKind::device, 4096);
  auto* mapped = static_cast<unsigned char*>(gpu().cpu_mapping(memory.at(), 4096));
  if (!mapped) GTEST_SKIP() << "the CPU cannot reach memory of this GPU";
  Bytes expected = pattern(4096, 5);
  std::copy(expected.begin(), expected.end(), mapped);
  EXPECT_EQ(bytes_of(memory.at(), 4096, stream), expected);
}

TEST(device_runtime, threads_without_a_context_can_do_all) {
  auto work = [](int seed) {
    int device = seed % devices();
    StreamScope stream(device);
    Memory memory(MemoryKind::device, 50000, device);
    Bytes expected = pattern(50000, seed);
    stream.copy(memory.at(), expected.data(), expected.size());
    Allocation found;
    EXPECT_SUCCESS(gpu().query(memory.at(), &found));
    EXPECT_EQ(found.device, device);
    Error sync = gpu().set_sync_memops(memory.at());
    EXPECT_TRUE(sync == Error::none || sync == Error::not_ready || sync == Error::not_supported)
        << words(sync);
    EXPECT_EQ(bytes_of(memory.at(), expected.size(), stream), expected);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

// As a program maps memory of a peer, or of the host without access for the CPU.
TEST(device_runtime, virtual_memory_is_of_the_device_that_has_access) {
  constexpr size_t bytes = 100000;
  for (int location : {-1, 0, 1}) {
    if (location >= devices()) continue;
    void* memory = nullptr;
    const Error error = gpu().allocate_virtual_in(location, 0, bytes, &memory);
    if (error != Error::none) {
      EXPECT_STRNE(gpu().name(), "sim") << words(error);
      continue;  // HIP has none of the host, some GPUs none at all
    }
    for (int current = 0; current < devices(); ++current) {
      Allocation found;
      ASSERT_SUCCESS(gpu().set_current_device(current));
      ASSERT_SUCCESS(gpu().query(memory, &found));
      // CUDA gives the CPU access to memory of the host.
      const bool for_cpu = location < 0 && gpu().name() == std::string("cuda");
      EXPECT_EQ(found.kind, for_cpu ? MemoryKind::pinned : MemoryKind::device) << location;
      if (for_cpu) continue;
      EXPECT_EQ(found.device, 0) << location;
      EXPECT_FALSE(found.ordinary && std::string(gpu().name()) != "rocm") << location;
      StreamScope stream(found.device);
      const Bytes expected = pattern(bytes, current);
      stream.copy(memory, expected.data(), bytes);
      EXPECT_EQ(bytes_of(memory, bytes, stream), expected) << location;
    }
    ASSERT_SUCCESS(gpu().set_current_device(0));
    ASSERT_SUCCESS(gpu().free(memory));
  }
}

// Without set_sync_memops() the first rounds find the old bytes on some GPUs.
TEST(device_runtime, synchronous_copies_of_the_program_are_complete_where_they_have_to_be) {
  using Allocate = Error (Runtime::*)(int, size_t, void**);
  for (Allocate allocate : {Allocate(&Runtime::allocate), Allocate(&Runtime::allocate_from_pool),
                            Allocate(&Runtime::allocate_virtual)}) {
    constexpr size_t bytes = 900;
    void* memory = nullptr;
    StreamScope stream;
    const Error error = (gpu().*allocate)(0, bytes, &memory);
    if (error == Error::not_supported) continue;
    ASSERT_SUCCESS(error);
    const Error sync = gpu().set_sync_memops(memory);
    EXPECT_TRUE(sync == Error::none || sync == Error::not_ready || sync == Error::not_supported)
        << words(sync);
    for (int round = 0; round < 200 && sync != Error::not_supported; ++round) {
      const Bytes expected = pattern(bytes, round);
      ASSERT_SUCCESS(gpu().copy_as_program(memory, expected.data(), bytes));
      ASSERT_EQ(bytes_of(memory, bytes, stream), expected) << "round " << round;
    }
    ASSERT_SUCCESS(gpu().free(memory));
  }
}

TEST(device_runtime, the_current_device_stays) {
  int before = -1, after = -1;
  for (int device = 0; device < devices(); ++device) {
    ASSERT_SUCCESS(gpu().set_current_device(device));
    ASSERT_SUCCESS(gpu().current_device(&before));
    EXPECT_EQ(before, device);
    for (int other = 0; other < devices(); ++other) {
      StreamScope stream(other);
      Memory memory(MemoryKind::device, 4096, other);
      EXPECT_SUCCESS(gpu().fill(memory.at(), 1, 4096, stream));
      EXPECT_SUCCESS(gpu().synchronize(other));
      EXPECT_NE(gpu().native(stream), nullptr);
      int meanwhile = -1;
      EXPECT_SUCCESS(gpu().run_on(other, [&] { gpu().current_device(&meanwhile); }));
      EXPECT_EQ(meanwhile, other);
    }
    ASSERT_SUCCESS(gpu().current_device(&after));
    EXPECT_EQ(after, device);
  }
  EXPECT_EQ(gpu().run_on(devices(), [] { FAIL() << "there is no such device"; }), Error::invalid_value);
  EXPECT_SUCCESS(gpu().set_current_device(0));
  EXPECT_EQ(gpu().set_current_device(devices()), Error::invalid_value);
}

TEST(device_runtime, copies_between_devices) {
  if (devices() < 2) GTEST_SKIP() << "needs 2 devices, has " << devices();
  constexpr size_t bytes = 3 << 20;
  for (auto [device, peer] : {std::pair{0, 1}, {1, 0}}) {
    bool possible = false;
    ASSERT_SUCCESS(gpu().can_access_peer(device, peer, &possible));
    if (possible) {
      EXPECT_SUCCESS(gpu().enable_peer(device, peer));
      EXPECT_SUCCESS(gpu().enable_peer(device, peer)) << "again";
    }
    StreamScope stream(device);
    Memory from(MemoryKind::device, bytes, peer), to(MemoryKind::device, bytes, device);
    Bytes expected = pattern(bytes, device);
    stream.copy(from.at(), expected.data(), bytes);
    stream.copy(to.at(), from.at(), bytes);
    EXPECT_EQ(bytes_of(to.at(), bytes, stream), expected) << "pulled by " << device;
  }
}

TEST(device_runtime, kernels_run_in_stream_order) {
  static const std::vector<CodeImage> images = test::kernel_images();
  bool simulated = std::strcmp(gpu().name(), "sim") == 0;
  if (!simulated && images.size() < 2) GTEST_SKIP() << "built without device code";
  for (int device = 0; device < devices(); ++device) {
    Kernel kernel = nullptr, same = nullptr;
    ASSERT_SUCCESS(gpu().find_kernel(device, images.data(), images.size(), "count_up", &kernel));
    ASSERT_SUCCESS(gpu().find_kernel(device, images.data(), images.size(), "count_up", &same));
    EXPECT_EQ(kernel, same);
    EXPECT_EQ(gpu().find_kernel(device, images.data(), images.size(), "count_down", &same), Error::not_found)
        << gpu().error_text();

    unsigned long count = 100003;
    unsigned first = 42;
    for (StreamKind kind : {StreamKind::library, StreamKind::urgent}) {
      StreamScope stream(device, kind);
      Memory memory(MemoryKind::device, count * sizeof(unsigned), device);
      void* numbers = memory.at();
      void* arguments[] = {&numbers, &first, &count};
      ASSERT_SUCCESS(gpu().fill(numbers, 0, count * sizeof(unsigned), stream));
      ASSERT_SUCCESS(gpu().launch(kernel, 64, 128, arguments, stream));
      std::vector<unsigned> read(count);
      stream.copy(read.data(), numbers, count * sizeof(unsigned));
      for (unsigned long i = 0; i < count; ++i) ASSERT_EQ(read[i], first + i) << "at " << i;
    }
  }
}

TEST(device_runtime, kernels_write_host_memory_where_the_driver_says_so) {
  if (!gpu().kernels_reach_host(0)) GTEST_SKIP() << "kernels of this GPU do not";
  static const std::vector<CodeImage> images = test::kernel_images();
  Kernel kernel = nullptr;
  ASSERT_SUCCESS(gpu().find_kernel(0, images.data(), images.size(), "count_up", &kernel));
  StreamScope stream;
  std::vector<unsigned> numbers(100000);
  unsigned *to = numbers.data(), first = 7;
  unsigned long count = numbers.size();
  void* arguments[] = {&to, &first, &count};
  ASSERT_SUCCESS(gpu().launch(kernel, 64, 128, arguments, stream));
  EXPECT_SUCCESS(gpu().synchronize_stream(stream));
  for (unsigned long i = 0; i < count; ++i) ASSERT_EQ(numbers[i], 7 + i);
  Allocation found;
  EXPECT_SUCCESS(gpu().query(to, &found));
  EXPECT_EQ(found.kind, MemoryKind::host);
}

TEST(device_runtime, tells_whether_work_is_in_flight) {
  static const std::vector<CodeImage> images = test::kernel_images();
  bool simulated = std::strcmp(gpu().name(), "sim") == 0;
  if (!simulated && images.size() < 2) GTEST_SKIP() << "built without device code";
  // CUDA before 12.5 tells of the application's streams only. ROCm tells of the default stream only,
  // before 6.3 of none, and never of a whole device.
  const bool amd = std::strcmp(gpu().name(), "rocm") == 0;
  const bool tells_all = simulated || (!amd && gpu().version() >= 12050);
  const Error no_work = amd && gpu().version() < 60300000 ? Error::not_supported : Error::none;
  const Error idle = amd ? Error::not_supported : Error::none;
  for (int device = 0; device < devices(); ++device) {
    Kernel kernel = nullptr;
    ASSERT_SUCCESS(gpu().find_kernel(device, images.data(), images.size(), "run_until", &kernel));
    StreamScope library(device), application(device, StreamKind::application);
    Memory flag(MemoryKind::pinned, sizeof(int), device);
    auto& over = *reinterpret_cast<volatile int*>(flag.at());
    void* address = flag.at();
    void* arguments[] = {&address};
    for (int round = 0; round < 10; ++round) {
      bool seen = round % 2 == 0;
      const StreamScope& stream = seen ? application : library;
      over = 0;
      EXPECT_EQ(gpu().query_application(device), no_work) << "round " << round;
      ASSERT_SUCCESS(gpu().launch(kernel, 1, 1, arguments, stream));
      for (int again = 0; again < 10; ++again) {
        for (int other = 0; other < devices(); ++other)
          EXPECT_EQ(gpu().query_application(other), seen && !amd && other == device ? Error::not_ready
                                                    : gpu().has_context(other)      ? no_work
                                                                                    : Error::none)
              << "round " << round << ", device " << other << ", kernel on " << device;
      }
      EXPECT_EQ(gpu().query_device(device), (seen && !amd) || tells_all ? Error::not_ready : idle);
      over = 1;
      EXPECT_SUCCESS(gpu().synchronize_stream(stream));
      EXPECT_EQ(gpu().query_device(device), idle) << "round " << round;
    }
    EXPECT_EQ(gpu().query_application(device), no_work);
  }
  EXPECT_EQ(gpu().query_application(devices()), Error::invalid_value);
  EXPECT_EQ(gpu().query_device(devices()), Error::invalid_value);
}

// ---- Cases with a second process ---------------------------------------------------------------------

constexpr size_t shared_bytes = 200000;  // one piece of the simulated GPU's virtual memory

std::string to_hex(const IpcHandle& handle) {
  std::string text;
  char digits[3];
  for (unsigned char byte : handle.bytes) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

TEST(device_runtime, other_processes_map_its_memory) {
  StreamScope stream;
  for (auto allocate : {&Runtime::allocate, &Runtime::allocate_virtual}) {
    void* memory = nullptr;
    Error error = (gpu().*allocate)(0, shared_bytes, &memory);
    if (error == Error::not_supported) GTEST_SKIP() << gpu().error_text();
    ASSERT_SUCCESS(error);
    Allocation found;
    ASSERT_SUCCESS(gpu().query(memory, &found));
    if (!found.exportable) GTEST_SKIP() << "this driver cannot share virtual memory";
    Bytes mine = pattern(shared_bytes, 17);
    stream.copy(memory, mine.data(), shared_bytes);
    IpcHandle handle{};
    int file = -1;
    error = gpu().ipc_export(memory, &handle, &file);
    if (error == Error::not_supported && allocate == &Runtime::allocate_virtual)
      GTEST_SKIP() << "this driver cannot share virtual memory";
    ASSERT_SUCCESS(error);
    int inherited = file < 0 ? -1 : dup(file);
    ASSERT_EQ(run_again("--import", to_hex(handle) + std::to_string(inherited)), 0);
    EXPECT_EQ(bytes_of(memory, shared_bytes, stream), pattern(shared_bytes, 71)) << "what the other wrote";
    for (int descriptor : {file, inherited}) close(descriptor);
    EXPECT_SUCCESS(gpu().free(memory));
  }
}

// On the last device, so that two devices take part where there are two.
int import_in_this_process(const char* text) {
  IpcHandle handle{};
  for (size_t i = 0; i < sizeof handle.bytes; ++i) {
    handle.bytes[i] = static_cast<unsigned char>(std::stoul(std::string(text + 2 * i, 2), nullptr, 16));
  }
  int file = std::atoi(text + 2 * sizeof handle.bytes);
  int device = devices() - 1;
  void* base = nullptr;
  Error error = gpu().ipc_import(device, handle, file, &base);
  if (error != Error::none) {
    std::fprintf(stderr, "ipc_import: %s\n", words(error).c_str());
    return 1;
  }
  Allocation found;
  if (gpu().query(base, &found) != Error::none || found.kind != MemoryKind::device) return 2;
  IpcHandle again{};
  int made = -1;
  if (file < 0 && gpu().ipc_export(base, &again, &made) == Error::none) return 5;  // it is not this process's
  // It may be memory of another GPU. The collectives rely on that, but not with HIP, which does not tell:
  // their kernels on AMD GPUs have one fence for all memory.
  if (file < 0 && found.ordinary && std::strcmp(gpu().name(), "rocm") != 0) return 6;
  {
    StreamScope stream(device);
    if (bytes_of(base, shared_bytes, stream) != pattern(shared_bytes, 17)) return 3;
    Bytes mine = pattern(shared_bytes, 71);
    stream.copy(base, mine.data(), shared_bytes);
  }
  error = gpu().ipc_close(device, base);
  if (error != Error::none) std::fprintf(stderr, "ipc_close: %s\n", words(error).c_str());
  return error == Error::none ? 0 : 4;
}

TEST(device_runtime, asking_about_pointers_creates_no_context) {
  EXPECT_EQ(run_again("--ask"), 0);
}

int ask_in_this_process() {
  int on_stack = 0;
  auto on_heap = std::make_unique<int[]>(1000);
  for (bool initialized : {false, true}) {
    if (initialized && gpu().initialize() != Error::none) return 1;
    for (const void* address : std::initializer_list<const void*>{&on_stack, on_heap.get(), nullptr,
                                                                  reinterpret_cast<void*>(0x7f0000000000)}) {
      Allocation found;
      found.kind = MemoryKind::device;
      if (gpu().query(address, &found) != Error::none || found.kind != MemoryKind::host) return 2;
    }
    for (int device = 0; device < devices(); ++device) {
      if (gpu().query_application(device) != Error::none) return 6;
      if (gpu().has_context(device)) return 3;
    }
  }
  void* address = nullptr;
  if (gpu().allocate(0, 4096, &address) != Error::none) return 4;
  return gpu().has_context(0) && gpu().in_use() ? 0 : 5;
}

}  // namespace
}  // namespace fairlead::device

int main(int argc, char** argv) {
  using namespace fairlead::device;
  testing::InitGoogleTest(&argc, argv);
  if (int status = without_devices(); status >= 0) return status;
  if (argc == 3 && std::strcmp(argv[1], "--import") == 0) return import_in_this_process(argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "--import-fabric") == 0) return import_from_other_node(argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "--ask") == 0) return ask_in_this_process();
  return run_all_tests(argc, argv);
}
