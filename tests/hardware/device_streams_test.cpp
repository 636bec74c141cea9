// SPDX-License-Identifier: Apache-2.0
//
// One test for every provider, as device_runtime_test.cpp, of the part of the contract by which programs
// order their work: words in memory, host functions, the application's streams, capture and graphs.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device_runtime_fixture.h"
#include "device_runtime_kernel.h"

namespace fairlead::device {
namespace {

bool is_rocm() {
  return std::strcmp(gpu().name(), "rocm") == 0;
}

uint32_t load(const uint32_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
void store(uint32_t* word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
void poll_until(const uint32_t* word, uint32_t value) {
  while (load(word) != value) std::this_thread::yield();
}

// Page-locked words, zero at first.
class Words {
 public:
  explicit Words(size_t count = 16) : memory_(MemoryKind::pinned, count * sizeof(uint32_t)) {
    std::memset(memory_.at(), 0, count * sizeof(uint32_t));
  }
  uint32_t* operator[](size_t index) const { return reinterpret_cast<uint32_t*>(memory_.at()) + index; }

 private:
  Memory memory_;
};

// Streams without words and streams of the simulated GPU with FAIRLEAD_SIM_FAULTS=no_words.
class device_words : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu().has_word_operations(0)) GTEST_SKIP() << "this GPU's streams cannot wait for words";
  }
};

using device_graphs = testing::Test;
using device_streams = testing::Test;

TEST_F(device_streams, without_word_operations_the_functions_say_so) {
  EXPECT_FALSE(gpu().has_word_operations(devices()));
  EXPECT_FALSE(gpu().has_word_operations(-1));
  if (gpu().has_word_operations(0)) return;
  StreamScope stream;
  Words words;
  EXPECT_EQ(gpu().write_word(stream, words[0], 1), Error::not_supported);
  EXPECT_EQ(gpu().wait_word(stream, words[0], 0), Error::not_supported);
  EXPECT_STRNE(gpu().error_text(), "");
}

TEST_F(device_words, work_behind_a_wait_sees_what_the_cpu_wrote_before_the_word) {
  constexpr size_t bytes = 1 << 20;
  for (int device = 0; device < devices(); ++device) {
    StreamScope stream(device);
    Words words;
    Memory source(MemoryKind::pinned, bytes), target(MemoryKind::device, bytes, device);
    for (uint32_t round = 1; round < 20; ++round) {
      ASSERT_SUCCESS(gpu().wait_word(stream, words[0], round));
      ASSERT_SUCCESS(gpu().copy(target.at(), source.at(), bytes, stream));
      EXPECT_EQ(gpu().query_stream(stream), Error::not_ready);
      const Bytes expected = pattern(bytes, round);
      std::memcpy(source.at(), expected.data(), bytes);
      store(words[0], round);
      EXPECT_SUCCESS(gpu().synchronize_stream(stream));
      ASSERT_TRUE(bytes_of(target.at(), bytes, stream) == expected) << "round " << round;
    }
  }
}

TEST_F(device_words, who_sees_a_word_sees_what_was_copied_before) {
  constexpr size_t bytes = 1 << 20;
  for (int device = 0; device < devices(); ++device) {
    StreamScope stream(device);
    Words words;
    Memory source(MemoryKind::device, bytes, device), target(MemoryKind::pinned, bytes);
    for (uint32_t round = 1; round < 20; ++round) {
      const Bytes expected = pattern(bytes, round);
      stream.copy(source.at(), expected.data(), bytes);
      ASSERT_SUCCESS(gpu().copy(target.at(), source.at(), bytes, stream));
      ASSERT_SUCCESS(gpu().write_word(stream, words[3], round));
      poll_until(words[3], round);
      ASSERT_EQ(std::memcmp(target.at(), expected.data(), bytes), 0) << "round " << round;
      ASSERT_SUCCESS(gpu().synchronize_stream(stream));
    }
  }
}

TEST_F(device_words, who_sees_a_word_sees_what_a_kernel_stored) {
  static const std::vector<CodeImage> images = test::kernel_images();
  if (std::strcmp(gpu().name(), "sim") != 0 && images.size() < 2) GTEST_SKIP() << "built without device code";
  unsigned long count = 100003;
  for (int device = 0; device < devices(); ++device) {
    Kernel kernel = nullptr;
    ASSERT_SUCCESS(gpu().find_kernel(device, images.data(), images.size(), "count_up", &kernel));
    StreamScope stream(device);
    Words words;
    Memory target(MemoryKind::pinned, count * sizeof(unsigned));
    void* numbers = target.at();
    for (unsigned round = 1; round < 20; ++round) {
      void* arguments[] = {&numbers, &round, &count};
      ASSERT_SUCCESS(gpu().launch(kernel, 64, 128, arguments, stream));
      ASSERT_SUCCESS(gpu().write_word(stream, words[0], round));
      poll_until(words[0], round);
      const auto* read = reinterpret_cast<const unsigned*>(target.at());
      for (unsigned long i = 0; i < count; ++i) ASSERT_EQ(read[i], round + i) << "at " << i;
      ASSERT_SUCCESS(gpu().synchronize_stream(stream));
    }
  }
}

TEST_F(device_words, are_compared_in_a_cycle) {
  struct Row {
    uint32_t word, value, enough;  // enough == word: the wait is over at once
  };
  constexpr Row rows[] = {{0, 0, 0},
                          {5, 3, 5},
                          {5, 6, 7},
                          {0x7ffffffe, 0x7fffffff, 0x80000001},
                          {0x7fffffff, 0x80000000, 0x80000000},
                          {0xfffffff0, 0xfffffff5, 3},
                          {3, 0xfffffff5, 3},
                          {0xfffffff5, 3, 0x10},
                          {0xffffffff, 0, 0}};
  StreamScope stream;
  Words words;
  for (const Row& row : rows) {
    if (is_rocm() && row.word > row.value && row.value - row.word < 1u << 31)
      continue;  // after a refused wait
    store(words[0], row.word);
    Error error = gpu().wait_word(stream, words[0], row.value);
    if (is_rocm() && row.value >> 31) {
      EXPECT_EQ(error, Error::not_supported) << row.value;
      continue;
    }
    ASSERT_SUCCESS(error);
    if (row.enough != row.word) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(gpu().query_stream(stream), Error::not_ready) << row.word << " for " << row.value;
      store(words[0], row.enough);
    }
    ASSERT_SUCCESS(gpu().synchronize_stream(stream));
  }
}

TEST_F(device_words, order_two_streams_in_every_kind_of_memory) {
  constexpr size_t bytes = 100000;
  constexpr uint32_t rounds = 50;
  for (MemoryKind kind : {MemoryKind::pinned, MemoryKind::device}) {
    StreamScope first, second;
    Memory memory(kind, 4096), middle(MemoryKind::device, bytes), last(MemoryKind::device, bytes);
    auto* word = reinterpret_cast<uint32_t*>(memory.at());
    ASSERT_SUCCESS(gpu().fill(memory.at(), 0, 4096, first));
    ASSERT_SUCCESS(gpu().synchronize_stream(first));
    // The second stream waits for rounds that the first has not begun.
    for (uint32_t round = 1; round <= rounds; ++round) {
      ASSERT_SUCCESS(gpu().wait_word(second, word, round));
      ASSERT_SUCCESS(gpu().copy(last.at(), middle.at(), bytes, second));
      ASSERT_SUCCESS(gpu().write_word(second, word + 100, round));
    }
    for (uint32_t round = 1; round <= rounds; ++round) {
      ASSERT_SUCCESS(gpu().fill(middle.at(), static_cast<int>(round), bytes, first));
      ASSERT_SUCCESS(gpu().write_word(first, word, round));
      ASSERT_SUCCESS(gpu().wait_word(first, word + 100, round));
      if (round % 10 == 0) {
        EXPECT_TRUE(bytes_of(last.at(), bytes, first) == Bytes(bytes, static_cast<unsigned char>(round)));
      }
    }
    EXPECT_SUCCESS(gpu().synchronize_stream(first));
    EXPECT_SUCCESS(gpu().synchronize_stream(second));
  }
}

TEST_F(device_words, many_waits_are_outstanding) {
  constexpr size_t streams = 16;
  constexpr uint32_t waits = 20;
  Words words(streams);
  std::vector<std::unique_ptr<StreamScope>> all;
  for (size_t i = 0; i < streams; ++i) all.push_back(std::make_unique<StreamScope>());
  for (uint32_t value = 1; value <= waits; ++value)
    for (size_t i = 0; i < streams; ++i) ASSERT_SUCCESS(gpu().wait_word(*all[i], words[i], value));
  for (auto& stream : all) EXPECT_EQ(gpu().query_stream(*stream), Error::not_ready);
  for (uint32_t value = 1; value < waits; value += 7)
    for (size_t i = streams; i-- > 0;) store(words[i], value);
  for (auto& stream : all) EXPECT_EQ(gpu().query_stream(*stream), Error::not_ready);
  for (size_t i = 0; i < streams; ++i) store(words[i], waits);
  for (auto& stream : all) EXPECT_SUCCESS(gpu().synchronize_stream(*stream));
}

// ---- Words of a second process -------------------------------------------------------------------------

constexpr size_t shared_bytes = 1 << 16, text_at = 4096;

struct SharedPages {
  explicit SharedPages(int file) : file(file) {
    address = static_cast<char*>(mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  }
  ~SharedPages() { munmap(address, shared_bytes); }
  uint32_t* word(size_t index) const { return reinterpret_cast<uint32_t*>(address) + index; }

  const int file;
  char* address;
};

// Answers two waits of the other process: one by the CPU, one by a stream of its own.
int answer_in_this_process(const char* file) {
  SharedPages pages(std::atoi(file));
  std::strcpy(pages.address + text_at, "by the CPU");
  store(pages.word(0), 1);
  poll_until(pages.word(1), 1);
  if (gpu().register_host(pages.address, shared_bytes) != Error::none) return 1;
  Stream stream = nullptr;
  void* memory = nullptr;
  if (gpu().create_stream(0, &stream) != Error::none || gpu().allocate(0, 4096, &memory) != Error::none)
    return 2;
  char text[] = "by a GPU";
  for (Error error :
       {gpu().copy(memory, text, sizeof text, stream), gpu().wait_word(stream, pages.word(2), 7),
        gpu().copy(pages.address + text_at, memory, sizeof text, stream),
        gpu().write_word(stream, pages.word(0), 2), gpu().synchronize_stream(stream)})
    if (error != Error::none) return 3;
  return gpu().unregister_host(pages.address) == Error::none ? 0 : 4;
}

TEST_F(device_words, are_shared_by_processes) {
  const int file = memfd_create("words", 0);
  ASSERT_EQ(ftruncate(file, shared_bytes), 0);
  SharedPages pages(file);
  ASSERT_SUCCESS(gpu().register_host(pages.address, shared_bytes));
  StreamScope stream;
  Memory first(MemoryKind::device, 64), second(MemoryKind::device, 64);
  ASSERT_SUCCESS(gpu().wait_word(stream, pages.word(0), 1));
  ASSERT_SUCCESS(gpu().copy(first.at(), pages.address + text_at, 64, stream));
  ASSERT_SUCCESS(gpu().write_word(stream, pages.word(1), 1));
  ASSERT_SUCCESS(gpu().write_word(stream, pages.word(2), 7));
  ASSERT_SUCCESS(gpu().wait_word(stream, pages.word(0), 2));
  ASSERT_SUCCESS(gpu().copy(second.at(), pages.address + text_at, 64, stream));
  EXPECT_EQ(run_again("--answer", std::to_string(file)), 0);
  EXPECT_SUCCESS(gpu().synchronize_stream(stream));
  EXPECT_STREQ(reinterpret_cast<const char*>(bytes_of(first.at(), 64, stream).data()), "by the CPU");
  EXPECT_STREQ(reinterpret_cast<const char*>(bytes_of(second.at(), 64, stream).data()), "by a GPU");
  EXPECT_SUCCESS(gpu().unregister_host(pages.address));
  close(file);
}

// ---- Host functions and the application's streams ------------------------------------------------------

struct HostCalls {
  const unsigned char* bytes;
  std::vector<unsigned char> seen;
};

void note_byte(void* argument) {
  auto& calls = *static_cast<HostCalls*>(argument);
  calls.seen.push_back(*calls.bytes);
}

TEST_F(device_streams, host_functions_run_between_earlier_and_later_work) {
  constexpr size_t bytes = 1 << 20;
  StreamScope stream;
  Memory target(MemoryKind::pinned, bytes);
  std::vector<std::unique_ptr<Memory>> sources;
  HostCalls calls{target.at(bytes - 1), {}};
  for (int i = 0; i < 8; ++i) {
    sources.push_back(std::make_unique<Memory>(MemoryKind::device, bytes));
    ASSERT_SUCCESS(gpu().fill(sources.back()->at(), i, bytes, stream));
  }
  for (int i = 0; i < 8; ++i) {
    ASSERT_SUCCESS(gpu().copy(target.at(), sources[i]->at(), bytes, stream));
    ASSERT_SUCCESS(gpu().call_host(stream, note_byte, &calls));
  }
  ASSERT_SUCCESS(gpu().synchronize_stream(stream));
  EXPECT_EQ(calls.seen, (std::vector<unsigned char>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(device_streams, adopted_streams_are_the_applications) {
  for (int device = 0; device < devices(); ++device) {
    StreamScope theirs(device, StreamKind::application);
    Memory memory(MemoryKind::device, 4096, device);
    for (int again = 0; again < 3; ++again) {
      Stream adopted = nullptr;
      int owner = -1;
      ASSERT_SUCCESS(gpu().adopt_stream(gpu().native(theirs), &adopted, &owner));
      if (!is_rocm() || devices() == 1) {
        EXPECT_EQ(owner, device);
      }
      EXPECT_EQ(gpu().native(adopted), gpu().native(theirs));
      // Both are one stream: no synchronisation is needed between them.
      ASSERT_SUCCESS(gpu().fill(memory.at(), 10 + again, 4096, adopted));
      EXPECT_TRUE(bytes_of(memory.at(), 4096, theirs) == Bytes(4096, static_cast<unsigned char>(10 + again)));
      Capture capture;
      EXPECT_SUCCESS(gpu().capture_of(adopted, &capture));
      EXPECT_EQ(capture.state, Capture::State::none);
      EXPECT_SUCCESS(gpu().destroy_stream(adopted));
    }
    EXPECT_SUCCESS(gpu().query_stream(theirs)) << "it outlives its adoption";
  }
}

TEST_F(device_streams, default_streams_are_adopted_on_the_current_device) {
  for (int device = 0; device < devices(); ++device) {
    ASSERT_SUCCESS(gpu().set_current_device(device));
    for (uintptr_t handle : {0, 1, 2}) {
      Stream adopted = nullptr;
      int owner = -1;
      ASSERT_SUCCESS(gpu().adopt_stream(reinterpret_cast<void*>(handle), &adopted, &owner)) << handle;
      EXPECT_EQ(owner, device);
      Memory memory(MemoryKind::device, 4096, device);
      ASSERT_SUCCESS(gpu().fill(memory.at(), 3, 4096, adopted)) << handle;
      ASSERT_SUCCESS(gpu().synchronize_stream(adopted)) << handle;
      StreamScope other(device);
      EXPECT_TRUE(bytes_of(memory.at(), 4096, other) == Bytes(4096, 3));
      EXPECT_SUCCESS(gpu().destroy_stream(adopted));
    }
  }
  EXPECT_SUCCESS(gpu().set_current_device(0));
}

TEST_F(device_words, the_default_stream_and_application_streams_wait_for_each_other) {
  Stream standard = nullptr;
  int device = -1;
  ASSERT_SUCCESS(gpu().adopt_stream(nullptr, &standard, &device));
  StreamScope application(0, StreamKind::application), library(0);
  Memory memory(MemoryKind::device, 4096);
  Words words;
  ASSERT_SUCCESS(gpu().wait_word(application, words[0], 1));
  ASSERT_SUCCESS(gpu().fill(memory.at(), 1, 4096, standard));
  ASSERT_SUCCESS(gpu().fill(memory.at(), 2, 4096, application));
  EXPECT_SUCCESS(gpu().synchronize_stream(library));
  EXPECT_EQ(gpu().query_stream(standard), Error::not_ready);
  store(words[0], 1);
  EXPECT_SUCCESS(gpu().synchronize_stream(standard));
  EXPECT_TRUE(bytes_of(memory.at(), 4096, application) == Bytes(4096, 2));
  EXPECT_SUCCESS(gpu().destroy_stream(standard));
}

// ---- Capture and graphs --------------------------------------------------------------------------------

Capture capture_of(Stream stream) {
  Capture capture;
  EXPECT_SUCCESS(gpu().capture_of(stream, &capture));
  return capture;
}

TEST_F(device_graphs, repeat_what_was_captured) {
  constexpr size_t bytes = 100000;
  StreamScope stream, other;
  Memory source(MemoryKind::pinned, bytes), middle(MemoryKind::device, bytes),
      last(MemoryKind::pinned, bytes);
  HostCalls calls{last.at(bytes - 1), {}};
  std::memset(last.at(), 0, bytes);
  EXPECT_EQ(capture_of(stream).state, Capture::State::none);
  uint64_t id = 0;
  for (unsigned round = 1; round < 4; ++round) {
    Graph graph = nullptr;
    ASSERT_SUCCESS(gpu().begin_capture(stream));
    EXPECT_EQ(capture_of(stream).state, Capture::State::active);
    EXPECT_NE(capture_of(stream).id, id) << "the id of an earlier capture";
    id = capture_of(stream).id;
    EXPECT_EQ(capture_of(other).state, Capture::State::none);
    ASSERT_SUCCESS(gpu().copy(middle.at(), source.at(), bytes, stream));
    ASSERT_SUCCESS(gpu().fill(middle.at(), static_cast<int>(round), 1, stream));
    ASSERT_SUCCESS(gpu().copy(last.at(), middle.at(), bytes, stream));
    ASSERT_SUCCESS(gpu().call_host(stream, note_byte, &calls));
    ASSERT_SUCCESS(gpu().end_capture(stream, &graph));
    EXPECT_EQ(capture_of(stream).state, Capture::State::none);
    EXPECT_SUCCESS(gpu().synchronize_stream(stream));
    EXPECT_EQ(calls.seen.size(), 5 * (round - 1)) << "the capture itself executes nothing";
    for (unsigned again = 0; again < 5; ++again) {
      Bytes expected = pattern(bytes, 10 * round + again);
      std::memcpy(source.at(), expected.data(), bytes);
      expected[0] = static_cast<unsigned char>(round);
      const StreamScope& on = again % 2 ? other : stream;
      ASSERT_SUCCESS(gpu().launch_graph(graph, on));
      ASSERT_SUCCESS(gpu().synchronize_stream(on));
      ASSERT_EQ(std::memcmp(last.at(), expected.data(), bytes), 0) << round << ", " << again;
      ASSERT_EQ(calls.seen.size(), 5 * (round - 1) + again + 1);
    }
    EXPECT_SUCCESS(gpu().destroy_graph(graph));
  }
}

TEST_F(device_graphs, launches_follow_each_other) {
  StreamScope first, second;
  Memory counter(MemoryKind::pinned, sizeof(int));
  auto* count = reinterpret_cast<int*>(counter.at());
  *count = 0;
  Graph graph = nullptr;
  ASSERT_SUCCESS(gpu().begin_capture(first));
  ASSERT_SUCCESS(gpu().call_host(
      first, [](void* argument) { ++*static_cast<int*>(argument); }, count));
  ASSERT_SUCCESS(gpu().end_capture(first, &graph));
  for (int i = 0; i < 100; ++i) ASSERT_SUCCESS(gpu().launch_graph(graph, i % 3 ? first : second));
  ASSERT_SUCCESS(gpu().synchronize_stream(first));
  ASSERT_SUCCESS(gpu().synchronize_stream(second));
  EXPECT_EQ(*count, 100);
  EXPECT_SUCCESS(gpu().destroy_graph(graph));
}

TEST_F(device_words, graphs_keep_objects_until_their_last_launch_has_ended) {
  StreamScope stream;
  Words words;
  std::atomic<int> released = 0;
  const auto keep = [&] {
    return gpu().keep_with_graph(stream, {nullptr, [&released](auto) { ++released; }});
  };
  EXPECT_NE(keep(), Error::none) << "no capture";
  EXPECT_EQ(released, 1);
  Graph graph = nullptr;
  ASSERT_SUCCESS(gpu().begin_capture(stream));
  const Error error = keep();
  if (error == Error::none) {
    ASSERT_SUCCESS(gpu().wait_word(stream, words[0], 1));
  } else {
    EXPECT_EQ(error, Error::not_supported);
    EXPECT_TRUE(is_rocm());
    EXPECT_EQ(released, 2);
  }
  EXPECT_EQ(capture_of(stream).state, Capture::State::active);
  ASSERT_SUCCESS(gpu().end_capture(stream, &graph));
  ASSERT_SUCCESS(gpu().launch_graph(graph, stream));
  EXPECT_SUCCESS(gpu().destroy_graph(graph));
  if (error != Error::none) return;
  EXPECT_EQ(released, 1) << "it is used by a launch";
  store(words[0], 1);
  ASSERT_SUCCESS(gpu().synchronize_stream(stream));
  while (released < 2) std::this_thread::yield();
}

TEST_F(device_words, are_captured) {
  StreamScope stream;
  Words words;
  // Device memory between, because CUDA makes the launch of a graph wait for copies from host to host memory.
  Memory source(MemoryKind::pinned, 4096), between(MemoryKind::device, 4096),
      target(MemoryKind::pinned, 4096);
  Graph graph = nullptr;
  ASSERT_SUCCESS(gpu().begin_capture(stream));
  Error error = gpu().wait_word(stream, words[0], 1);
  if (error == Error::not_supported) {
    EXPECT_TRUE(is_rocm());
    EXPECT_EQ(gpu().write_word(stream, words[1], 1), Error::not_supported);
    EXPECT_EQ(capture_of(stream).state, Capture::State::active) << "the refusal leaves the capture alone";
    ASSERT_SUCCESS(gpu().end_capture(stream, &graph));
    EXPECT_SUCCESS(gpu().destroy_graph(graph));
    EXPECT_EQ(load(words[1]), 0u);
    return;
  }
  ASSERT_SUCCESS(error);
  ASSERT_SUCCESS(gpu().copy(between.at(), source.at(), 4096, stream));
  ASSERT_SUCCESS(gpu().copy(target.at(), between.at(), 4096, stream));
  ASSERT_SUCCESS(gpu().write_word(stream, words[1], 1));
  ASSERT_SUCCESS(gpu().end_capture(stream, &graph));
  for (int round = 0; round < 20; ++round) {
    store(words[0], 0);
    store(words[1], 0);
    ASSERT_SUCCESS(gpu().launch_graph(graph, stream));
    EXPECT_EQ(gpu().query_stream(stream), Error::not_ready);
    std::memset(source.at(), round, 4096);
    store(words[0], 1);
    poll_until(words[1], 1);
    EXPECT_EQ(target.at()[4095], round);
    ASSERT_SUCCESS(gpu().synchronize_stream(stream));
  }
  EXPECT_SUCCESS(gpu().destroy_graph(graph));
}

class EventScope {
 public:
  EventScope() { EXPECT_SUCCESS(gpu().create_event(0, &event_)); }
  ~EventScope() { EXPECT_SUCCESS(gpu().destroy_event(event_)); }
  EventScope(const EventScope&) = delete;
  operator Event() const { return event_; }

 private:
  Event event_ = nullptr;
};

TEST_F(device_graphs, streams_join_a_capture_by_events) {
  constexpr size_t bytes = 100000;
  StreamScope first, second;
  EventScope forked, joined;
  Memory source(MemoryKind::device, bytes), left(MemoryKind::device, bytes), right(MemoryKind::device, bytes);
  Graph graph = nullptr;
  ASSERT_SUCCESS(gpu().begin_capture(first));
  ASSERT_SUCCESS(gpu().fill(source.at(), 7, bytes, first));
  ASSERT_SUCCESS(gpu().record_event(forked, first));
  ASSERT_SUCCESS(gpu().wait_event(second, forked));
  EXPECT_EQ(capture_of(second).state, Capture::State::active);
  EXPECT_EQ(capture_of(second).id, capture_of(first).id);
  ASSERT_SUCCESS(gpu().copy(left.at(), source.at(), bytes, first));
  ASSERT_SUCCESS(gpu().copy(right.at(), source.at(), bytes, second));
  ASSERT_SUCCESS(gpu().record_event(joined, second));
  ASSERT_SUCCESS(gpu().wait_event(first, joined));
  ASSERT_SUCCESS(gpu().fill(right.at(), 8, 1, first));
  ASSERT_SUCCESS(gpu().end_capture(first, &graph));
  EXPECT_EQ(capture_of(second).state, Capture::State::none);
  Bytes expected(bytes, 7);
  for (int round = 0; round < 10; ++round) {
    for (auto* memory : {&left, &right, &source}) ASSERT_SUCCESS(gpu().fill(memory->at(), 0, bytes, first));
    ASSERT_SUCCESS(gpu().launch_graph(graph, first));
    expected[0] = 7;
    ASSERT_TRUE(bytes_of(left.at(), bytes, first) == expected) << round;
    expected[0] = 8;
    ASSERT_TRUE(bytes_of(right.at(), bytes, first) == expected) << round;
  }
  EXPECT_SUCCESS(gpu().destroy_graph(graph));
}

constexpr CaptureMode modes[] = {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed};

// A stream that is being captured, by this thread or by another one, until end(), which returns whether the
// capture survived.
class CaptureScope {
 public:
  CaptureScope(CaptureMode mode, bool here) : here_(here) {
    EXPECT_SUCCESS(gpu().create_stream(0, &stream_, StreamKind::application));
    run([&] { EXPECT_SUCCESS(gpu().begin_capture(stream_, mode)); });
  }
  bool end() {
    Graph graph = nullptr;
    run([&] { (void)gpu().end_capture(stream_, &graph); });
    EXPECT_SUCCESS(gpu().destroy_stream(stream_));
    if (graph) {
      EXPECT_SUCCESS(gpu().destroy_graph(graph));
    }
    return graph != nullptr;
  }

 private:
  void run(std::function<void()> work) {
    if (here_) return work();
    work_ = std::move(work);
    next_.arrive_and_wait();
    next_.arrive_and_wait();
  }
  void serve() {
    for (int calls = 0; calls < 2; ++calls) {
      next_.arrive_and_wait();
      work_();
      next_.arrive_and_wait();
    }
  }

  const bool here_;
  Stream stream_ = nullptr;
  std::function<void()> work_;
  std::barrier<> next_{2};
  std::jthread other_{[this] {
    if (!here_) serve();
  }};
};

// The calls of the library that need no second process.
class Calls {
 public:
  Calls() {
    if (std::strcmp(gpu().name(), "sim") == 0 || images_.size() > 1) {
      EXPECT_SUCCESS(find_kernel());
    }
  }
  void make() {
    Allocation found;
    size_t free = 0, total = 0;
    IpcHandle handle;
    int file = -1;
    EXPECT_SUCCESS(gpu().query(memory_.at(), &found));
    EXPECT_SUCCESS(gpu().memory_info(0, &free, &total));
    EXPECT_SUCCESS(gpu().ipc_export(memory_.at(), &handle, &file));
    for (int device = 1; device < devices(); ++device) (void)gpu().enable_peer(0, device);
    make_memory();
    std::vector<char> pageable(4096);
    StreamScope stream;
    EventScope event;
    EXPECT_SUCCESS(gpu().copy(memory_.at(), pageable.data(), pageable.size(), stream));
    EXPECT_SUCCESS(gpu().copy_2d(memory_.at(), 64, pinned_.at(), 64, 32, 2, stream));
    EXPECT_SUCCESS(gpu().fill(memory_.at(), 1, 4096, stream));
    EXPECT_SUCCESS(gpu().record_event(event, stream));
    EXPECT_SUCCESS(gpu().wait_event(stream, event));
    Error state = Error::none;
    while ((state = gpu().query_event(event)) == Error::not_ready) std::this_thread::yield();
    EXPECT_SUCCESS(state);
    EXPECT_SUCCESS(gpu().synchronize_stream(stream));
    EXPECT_SUCCESS(gpu().query_stream(stream));
    if (kernel_) launch();
    (void)gpu().query_application(0);
    const Error idle = gpu().query_device(0);
    EXPECT_TRUE(idle == Error::not_ready || idle == Error::not_supported)
        << "while a stream that waits for the default one is captured";
  }

 private:
  static void make_memory() {
    void *memory = nullptr, *pinned = nullptr, *managed = nullptr;
    static std::vector<char> pages(8192);
    void* page = pages.data() + (4096 - reinterpret_cast<uintptr_t>(pages.data()) % 4096) % 4096;
    EXPECT_SUCCESS(gpu().allocate(0, 4096, &memory));
    EXPECT_SUCCESS(gpu().allocate_pinned(4096, &pinned));
    EXPECT_SUCCESS(gpu().allocate_managed(0, 4096, &managed));
    EXPECT_SUCCESS(gpu().register_host(page, 4096));
    EXPECT_SUCCESS(gpu().unregister_host(page));
    EXPECT_SUCCESS(gpu().free(managed));
    EXPECT_SUCCESS(gpu().free_pinned(pinned));
    EXPECT_SUCCESS(gpu().free(memory));
  }
  Error find_kernel() { return gpu().find_kernel(0, images_.data(), images_.size(), "count_up", &kernel_); }
  // In a new stream for urgent kernels, since the first launch there makes what later ones use.
  void launch() {
    Stream urgent = nullptr;
    void* numbers = pinned_.at();
    unsigned first = 0;
    unsigned long count = 64;
    void* arguments[] = {&numbers, &first, &count};
    EXPECT_SUCCESS(find_kernel());
    EXPECT_SUCCESS(gpu().create_stream(0, &urgent, StreamKind::urgent));
    EXPECT_SUCCESS(gpu().launch(kernel_, 1, 64, arguments, urgent));
    EXPECT_SUCCESS(gpu().synchronize_stream(urgent));
    EXPECT_SUCCESS(gpu().destroy_stream(urgent));
  }

  const std::vector<CodeImage> images_ = test::kernel_images();
  Kernel kernel_ = nullptr;
  Memory memory_{MemoryKind::device, 4096}, pinned_{MemoryKind::pinned, 4096};
};

TEST_F(device_graphs, calls_do_not_concern_captures) {
  Calls calls;
  for (bool here : {true, false})
    for (CaptureMode mode : modes)
      for (CaptureMode of_thread : modes) {
        SCOPED_TRACE(std::string(here ? "here" : "elsewhere") + ", the capture's mode " +
                     std::to_string(static_cast<int>(mode)) + ", the thread's " +
                     std::to_string(static_cast<int>(of_thread)));
        CaptureMode exchanged = of_thread;
        CaptureScope capture(mode, here);
        ASSERT_SUCCESS(gpu().exchange_capture_mode(&exchanged));
        calls.make();
        ASSERT_SUCCESS(gpu().exchange_capture_mode(&exchanged));
        EXPECT_EQ(exchanged, of_thread);
        EXPECT_TRUE(capture.end());
      }
}

// The code of a kernel that nobody has used is loaded.
TEST_F(device_graphs, loading_does_not_concern_captures) {
  const std::vector<CodeImage> images = test::kernel_images();
  if (std::strcmp(gpu().name(), "sim") != 0 && images.size() < 2) GTEST_SKIP() << "built without device code";
  for (bool here : {true, false}) {
    // Providers know what they have loaded by the address of the images.
    const auto* fresh = new std::vector<CodeImage>(images);
    Kernel kernel = nullptr;
    CaptureScope capture(CaptureMode::global, here);
    EXPECT_SUCCESS(gpu().find_kernel(0, fresh->data(), fresh->size(), "run_until", &kernel));
    EXPECT_TRUE(capture.end());
  }
}

// The driver may end a capture in a stream that does not wait for the default one, but no second one soon.
TEST_F(device_graphs, the_question_whether_a_device_is_idle_ends_few_captures) {
  StreamScope stream;
  Graph graph = nullptr;
  ASSERT_SUCCESS(gpu().begin_capture(stream));
  if (gpu().queries_all_streams()) {
    EXPECT_EQ(gpu().query_device(0), Error::not_ready);
    EXPECT_EQ(capture_of(stream).state, Capture::State::invalidated);
    EXPECT_NE(gpu().end_capture(stream, &graph), Error::none);
    ASSERT_SUCCESS(gpu().begin_capture(stream));
  }
  (void)gpu().query_device(0);
  EXPECT_EQ(capture_of(stream).state, Capture::State::active);
  ASSERT_SUCCESS(gpu().end_capture(stream, &graph));
  EXPECT_SUCCESS(gpu().destroy_graph(graph));
}

// The stream can be used again.
void expect_usable(const StreamScope& stream) {
  EXPECT_EQ(capture_of(stream).state, Capture::State::none);
  Memory memory(MemoryKind::device, 4096);
  ASSERT_SUCCESS(gpu().fill(memory.at(), 5, 4096, stream));
  EXPECT_TRUE(bytes_of(memory.at(), 4096, stream) == Bytes(4096, 5));
}

TEST_F(device_graphs, a_stream_that_is_not_waited_for_makes_the_capture_fail) {
  StreamScope first, second;
  EventScope forked;
  Memory memory(MemoryKind::device, 4096);
  Graph graph = nullptr;
  ASSERT_SUCCESS(gpu().begin_capture(first));
  ASSERT_SUCCESS(gpu().record_event(forked, first));
  ASSERT_SUCCESS(gpu().wait_event(second, forked));
  ASSERT_SUCCESS(gpu().fill(memory.at(), 1, 4096, second));
  EXPECT_NE(gpu().end_capture(first, &graph), Error::none);
  EXPECT_STRNE(gpu().error_text(), "");
  EXPECT_EQ(graph, nullptr);
  expect_usable(first);
  expect_usable(second);
}

TEST_F(device_graphs, queries_and_synchronisation_invalidate_a_capture) {
  StreamScope stream;
  EventScope event;
  Memory memory(MemoryKind::device, 4096);
  const auto attempts = {
      +[](Stream captured, Event) { return gpu().query_stream(captured); },
      +[](Stream captured, Event) { return gpu().synchronize_stream(captured); },
      +[](Stream, Event recorded) { return gpu().query_event(recorded); },
  };
  for (auto attempt : attempts) {
    Graph graph = nullptr;
    ASSERT_SUCCESS(gpu().begin_capture(stream));
    ASSERT_SUCCESS(gpu().fill(memory.at(), 1, 4096, stream));
    ASSERT_SUCCESS(gpu().record_event(event, stream));
    const Error error = attempt(stream, event);
    EXPECT_TRUE(error != Error::none && error != Error::not_ready) << words(error);
    EXPECT_EQ(capture_of(stream).state, Capture::State::invalidated);
    EXPECT_NE(gpu().fill(memory.at(), 1, 4096, stream), Error::none) << "into an invalid capture";
    EXPECT_NE(gpu().end_capture(stream, &graph), Error::none);
    EXPECT_EQ(graph, nullptr);
    expect_usable(stream);
  }
  Graph graph = nullptr;
  EXPECT_NE(gpu().end_capture(stream, &graph), Error::none) << "no capture has begun";
  ASSERT_SUCCESS(gpu().begin_capture(stream));
  EXPECT_NE(gpu().begin_capture(stream), Error::none) << "a capture has begun";
  gpu().end_capture(stream, &graph);
  if (graph) {
    EXPECT_SUCCESS(gpu().destroy_graph(graph));
  }
}

}  // namespace
}  // namespace fairlead::device

int main(int argc, char** argv) {
  using namespace fairlead::device;
  testing::InitGoogleTest(&argc, argv);
  if (int status = without_devices(); status >= 0) return status;
  if (argc == 3 && std::strcmp(argv[1], "--answer") == 0) return answer_in_this_process(argv[2]);
  return run_all_tests(argc, argv);
}
