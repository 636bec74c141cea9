// SPDX-License-Identifier: Apache-2.0
// What the simulated GPU refuses in words, host functions, adopted streams, captures and graphs, and what of
// it runs in parallel. tests/hardware/device_streams_test.cpp tests what every GPU does.

#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <thread>

#include "sim/sim_fixture.h"

namespace fairlead::device {
namespace {

class SimOrder : public SimTest {
 protected:
  Stream application_stream() {
    Stream made = nullptr;
    EXPECT_EQ(gpu.create_stream(0, &made, StreamKind::application), Error::none) << gpu.error_text();
    return made;
  }
  Stream adopt(uintptr_t native) {
    Stream made = nullptr;
    int device = -1;
    EXPECT_EQ(gpu.adopt_stream(reinterpret_cast<void*>(native), &made, &device), Error::none)
        << gpu.error_text();
    return made;
  }
  uint32_t* zero_words(size_t count = 16) {
    char* memory = pinned_memory(count * sizeof(uint32_t));
    memset(memory, 0, count * sizeof(uint32_t));
    return reinterpret_cast<uint32_t*>(memory);
  }
  Capture::State state(Stream of) {
    Capture capture;
    EXPECT_EQ(gpu.capture_of(of, &capture), Error::none) << gpu.error_text();
    return capture.state;
  }
  void store(uint32_t* word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }
};

TEST_F(SimOrder, words_are_aligned_and_in_memory_that_the_device_reaches) {
  Stream on = stream();
  uint32_t* words = zero_words();
  uint32_t pageable[2] = {};
  void* managed = nullptr;
  ASSERT_EQ(gpu.allocate_managed(0, 4096, &managed), Error::none);
  char *freed = device_memory(4096), *peers = device_memory(4096, 1);
  ASSERT_EQ(gpu.free(freed), Error::none);
  for (auto [address, expected] : {std::pair{reinterpret_cast<char*>(words) + 2, Error::invalid_value},
                                   {reinterpret_cast<char*>(words + 16), Error::invalid_value},
                                   {reinterpret_cast<char*>(pageable), Error::invalid_value},
                                   {static_cast<char*>(managed), Error::invalid_value},
                                   {freed, Error::invalid_value},
                                   {peers, Error::peer_unavailable}}) {
    auto* word = reinterpret_cast<uint32_t*>(address);
    EXPECT_EQ(gpu.write_word(on, word, 1), expected) << gpu.error_text();
    EXPECT_EQ(gpu.wait_word(on, word, 0), expected) << gpu.error_text();
  }
  ASSERT_EQ(gpu.enable_peer(0, 1), Error::none);
  EXPECT_EQ(gpu.write_word(on, reinterpret_cast<uint32_t*>(peers), 1), Error::none);
  EXPECT_EQ(gpu.synchronize_stream(on), Error::none);
}

TEST_F(SimOrder, a_wait_for_memory_that_is_unregistered_fails) {
  void* pages = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(gpu.register_host(pages, 4096), Error::none);
  Stream on = stream();
  ASSERT_EQ(gpu.wait_word(on, static_cast<uint32_t*>(pages), 1), Error::none);
  ASSERT_EQ(gpu.unregister_host(pages), Error::none);
  EXPECT_EQ(gpu.synchronize_stream(on), Error::failed);
  EXPECT_EQ(gpu.synchronize_stream(on), Error::none) << "reported once";
  munmap(pages, 4096);
}

TEST_F(SimOrder, host_functions_cannot_use_the_gpu) {
  struct Attempt {
    Runtime& gpu;
    Stream on;
    Error error;
  } attempt{gpu, stream(), Error::none};
  ASSERT_EQ(gpu.call_host(
                attempt.on,
                [](void* argument) {
                  auto& self = *static_cast<Attempt*>(argument);
                  self.error = self.gpu.query_stream(self.on);
                },
                &attempt),
            Error::none);
  ASSERT_EQ(gpu.synchronize_stream(attempt.on), Error::none);
  EXPECT_EQ(attempt.error, Error::failed);
  EXPECT_EQ(gpu.call_host(attempt.on, nullptr, nullptr), Error::invalid_value);
}

TEST_F(SimOrder, streams_that_do_not_exist_are_not_adopted) {
  Stream made = nullptr, on = stream();
  int device = -1;
  EXPECT_EQ(gpu.adopt_stream(reinterpret_cast<void*>(uintptr_t{1000000}), &made, &device),
            Error::invalid_value);
  Stream adopted = adopt(reinterpret_cast<uintptr_t>(on));
  ASSERT_EQ(gpu.destroy_stream(on), Error::none);
  EXPECT_EQ(gpu.query_stream(adopted), Error::invalid_value);
  EXPECT_EQ(gpu.destroy_stream(adopted), Error::none);
}

TEST_F(SimOrder, each_thread_has_a_default_stream_of_its_own) {
  Stream of_thread = adopt(2);
  uint32_t* words = zero_words();
  ASSERT_EQ(gpu.wait_word(of_thread, words, 1), Error::none);
  std::thread([&] { EXPECT_EQ(gpu.synchronize_stream(of_thread), Error::none); }).join();
  EXPECT_EQ(gpu.query_stream(of_thread), Error::not_ready);
  store(words, 1);
  EXPECT_EQ(gpu.synchronize_stream(of_thread), Error::none);
}

TEST_F(SimOrder, the_default_stream_and_captures_do_not_mix) {
  Stream standard = adopt(0), captured = application_stream();
  char* memory = device_memory(64);
  Graph graph = nullptr;
  ASSERT_EQ(gpu.fill(memory, 0, 64, standard), Error::none);
  EXPECT_EQ(gpu.begin_capture(standard), Error::failed);
  ASSERT_EQ(gpu.begin_capture(captured), Error::none);
  Capture capture;
  EXPECT_EQ(gpu.capture_of(standard, &capture), Error::failed);
  EXPECT_EQ(state(captured), Capture::State::active) << "the question leaves the capture alone";
  EXPECT_EQ(gpu.fill(memory, 0, 64, standard), Error::failed);
  EXPECT_EQ(state(captured), Capture::State::invalidated);
  EXPECT_EQ(gpu.end_capture(captured, &graph), Error::failed);
  EXPECT_EQ(gpu.fill(memory, 0, 64, standard), Error::none);
  EXPECT_EQ(gpu.synchronize_stream(standard), Error::none);
}

TEST_F(SimOrder, captures_keep_to_their_own_events) {
  Stream first = stream(), second = stream(), outside = stream();
  Event event_of_outside = event(), event_of_first = event();
  Graph graph = nullptr;
  ASSERT_EQ(gpu.record_event(event_of_outside, outside), Error::none);
  ASSERT_EQ(gpu.begin_capture(first), Error::none);
  ASSERT_EQ(gpu.begin_capture(second), Error::none);
  ASSERT_EQ(gpu.record_event(event_of_first, first), Error::none);
  EXPECT_EQ(gpu.wait_event(second, event_of_first), Error::failed) << "of another capture";
  EXPECT_EQ(state(second), Capture::State::invalidated);
  EXPECT_EQ(gpu.end_capture(second, &graph), Error::failed);
  EXPECT_EQ(gpu.wait_event(first, event_of_outside), Error::failed) << "of no capture";
  EXPECT_EQ(gpu.end_capture(first, &graph), Error::failed);
  EXPECT_EQ(gpu.wait_event(outside, event_of_first), Error::failed) << "of an ended capture";
  EXPECT_EQ(graph, nullptr);
}

// As the driver that a provider calls (device/guarded.h).
TEST(SimDriver, calls_conflict_with_captures_as_both_modes_say) {
  Runtime& driver = *make_sim(false);
  constexpr CaptureMode modes[] = {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed};
  Stream captured = nullptr, other = nullptr;
  Event event = nullptr;
  void* memory = nullptr;
  ASSERT_EQ(driver.create_stream(0, &captured, StreamKind::library), Error::none);
  ASSERT_EQ(driver.create_stream(0, &other, StreamKind::library), Error::none);
  ASSERT_EQ(driver.create_event(0, &event), Error::none);
  ASSERT_EQ(driver.allocate(0, 64, &memory), Error::none);
  const std::function<Error()> calls[] = {
      [&] { return driver.allocate(0, 64, &memory); },  [&] { return driver.free(memory); },
      [&] { return driver.query_event(event); },        [&] { return driver.query_stream(other); },
      [&] { return driver.synchronize_stream(other); },
  };
  for (bool here : {true, false})
    for (CaptureMode mode : modes)
      for (CaptureMode of_thread : modes)
        for (const auto& call : calls) {
          const bool relaxed = mode == CaptureMode::relaxed || of_thread == CaptureMode::relaxed;
          const bool global = mode == CaptureMode::global && of_thread == CaptureMode::global;
          const bool refused = !relaxed && (here || global);
          Graph graph = nullptr;
          CaptureMode exchanged = of_thread;
          const auto begin = [&] { ASSERT_EQ(driver.begin_capture(captured, mode), Error::none); };
          here ? begin() : std::thread(begin).join();
          ASSERT_EQ(driver.exchange_capture_mode(&exchanged), Error::none);
          EXPECT_EQ(call(), refused ? Error::capturing : Error::none);
          ASSERT_EQ(driver.exchange_capture_mode(&exchanged), Error::none);
          EXPECT_EQ(driver.end_capture(captured, &graph) == Error::none, !refused);
        }
}

TEST_F(SimOrder, a_joined_stream_cannot_end_the_capture_and_leaves_it_with_the_first) {
  Stream first = stream(), second = stream();
  Event forked = event(), joined = event();
  Graph graph = nullptr;
  ASSERT_EQ(gpu.begin_capture(first), Error::none);
  ASSERT_EQ(gpu.record_event(forked, first), Error::none);
  ASSERT_EQ(gpu.wait_event(second, forked), Error::none);
  EXPECT_EQ(gpu.end_capture(second, &graph), Error::failed);
  ASSERT_EQ(gpu.record_event(joined, second), Error::none);
  ASSERT_EQ(gpu.wait_event(first, joined), Error::none);
  ASSERT_EQ(gpu.end_capture(first, &graph), Error::none) << gpu.error_text();
  EXPECT_EQ(state(second), Capture::State::none);
  EXPECT_EQ(gpu.destroy_graph(graph), Error::none);
}

// As on NVIDIA GPUs, which have four queues for the copies of each direction.
TEST_F(SimOrder, copies_behind_waits_keep_the_queues_of_their_direction) {
  char *here = device_memory(64), *there = device_memory(64, 1), *host = pinned_memory(64);
  auto* word = reinterpret_cast<uint32_t*>(pinned_memory(4));
  *word = 0;
  std::vector<Stream> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(stream());
    ASSERT_EQ(gpu.wait_word(waiting.back(), word, 1), Error::none);
    ASSERT_EQ(gpu.copy(host + 8 * i, here, 8, waiting.back()), Error::none);
  }
  Stream in = stream(), inside = stream(), between = stream(), out = stream(), other_device = stream(1);
  ASSERT_EQ(gpu.copy(host + 32, here, 8, out), Error::none);
  ASSERT_EQ(gpu.copy(here + 8, host + 48, 8, in), Error::none);
  ASSERT_EQ(gpu.copy(here + 16, here, 8, inside), Error::none);
  ASSERT_EQ(gpu.copy(here + 24, there, 8, between), Error::none);
  ASSERT_EQ(gpu.copy(host + 40, there, 8, other_device), Error::none);
  for (Stream passes : {in, inside, between, other_device})
    EXPECT_EQ(gpu.synchronize_stream(passes), Error::none);
  EXPECT_EQ(gpu.query_stream(out), Error::not_ready);
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  EXPECT_EQ(gpu.synchronize_stream(out), Error::none);
  for (Stream stream : waiting) EXPECT_EQ(gpu.synchronize_stream(stream), Error::none);
}

TEST_F(SimOrder, graphs_are_refused_where_they_cannot_be_launched) {
  Stream first = stream(), second = stream();
  Graph graph = nullptr, other = nullptr;
  ASSERT_EQ(gpu.begin_capture(first), Error::none);
  ASSERT_EQ(gpu.end_capture(first, &graph), Error::none);
  ASSERT_EQ(gpu.begin_capture(second), Error::none);
  EXPECT_EQ(gpu.launch_graph(graph, second), Error::not_supported);
  ASSERT_EQ(gpu.end_capture(second, &other), Error::none);
  EXPECT_EQ(gpu.launch_graph(other, first), Error::none) << "an empty one";
  ASSERT_EQ(gpu.destroy_graph(graph), Error::none);
  EXPECT_EQ(gpu.launch_graph(graph, first), Error::invalid_value);
  EXPECT_EQ(gpu.destroy_graph(graph), Error::invalid_value);
  EXPECT_EQ(gpu.synchronize_stream(first), Error::none);
}

TEST_F(SimOrder, a_destroyed_stream_invalidates_its_capture) {
  Stream first = stream(), second = stream();
  Event forked = event();
  Graph graph = nullptr;
  ASSERT_EQ(gpu.begin_capture(first), Error::none);
  ASSERT_EQ(gpu.record_event(forked, first), Error::none);
  ASSERT_EQ(gpu.wait_event(second, forked), Error::none);
  ASSERT_EQ(gpu.destroy_stream(second), Error::none);
  EXPECT_EQ(gpu.end_capture(first, &graph), Error::failed);
}

TEST_F(SimOrder, lanes_of_a_graph_run_in_parallel) {
  Stream first = stream(), second = stream();
  Event forked = event(), joined = event();
  uint32_t* words = zero_words();
  Graph graph = nullptr;
  ASSERT_EQ(gpu.begin_capture(first), Error::none);
  ASSERT_EQ(gpu.record_event(forked, first), Error::none);
  ASSERT_EQ(gpu.wait_event(second, forked), Error::none);
  ASSERT_EQ(gpu.wait_word(second, &words[0], 1), Error::none);
  ASSERT_EQ(gpu.write_word(second, &words[1], 1), Error::none);
  ASSERT_EQ(gpu.write_word(first, &words[0], 1), Error::none);
  ASSERT_EQ(gpu.wait_word(first, &words[1], 1), Error::none);
  ASSERT_EQ(gpu.record_event(joined, second), Error::none);
  ASSERT_EQ(gpu.wait_event(first, joined), Error::none);
  ASSERT_EQ(gpu.end_capture(first, &graph), Error::none);
  for (int round = 0; round < 20; ++round) {
    store(&words[0], 0);
    store(&words[1], 0);
    ASSERT_EQ(gpu.launch_graph(graph, first), Error::none);
    ASSERT_EQ(gpu.synchronize_stream(first), Error::none);
    EXPECT_EQ(words[1], 1u);
  }
  EXPECT_EQ(gpu.destroy_graph(graph), Error::none);
}

TEST_F(SimOrder, a_launch_reports_what_fails_in_any_lane) {
  Stream first = stream(), second = stream();
  Event forked = event(), joined = event();
  char* memory = device_memory(64);
  Graph graph = nullptr;
  ASSERT_EQ(gpu.begin_capture(first), Error::none);
  ASSERT_EQ(gpu.record_event(forked, first), Error::none);
  ASSERT_EQ(gpu.wait_event(second, forked), Error::none);
  ASSERT_EQ(gpu.fill(memory, 1, 64, second), Error::none);
  ASSERT_EQ(gpu.record_event(joined, second), Error::none);
  ASSERT_EQ(gpu.wait_event(first, joined), Error::none);
  ASSERT_EQ(gpu.end_capture(first, &graph), Error::none);
  ASSERT_EQ(gpu.launch_graph(graph, first), Error::none);
  EXPECT_EQ(gpu.synchronize_stream(first), Error::none);
  ASSERT_EQ(gpu.free(memory), Error::none);
  for (int again = 0; again < 2; ++again) {
    ASSERT_EQ(gpu.launch_graph(graph, first), Error::none);
    EXPECT_EQ(gpu.synchronize_stream(first), Error::failed);
    EXPECT_NE(strstr(gpu.error_text(), "freed"), nullptr) << gpu.error_text();
  }
  EXPECT_EQ(gpu.destroy_graph(graph), Error::none);
}

TEST_F(SimOrder, needs_no_words_the_functions_are_missing) {
  EXPECT_FALSE(gpu.has_word_operations(0));
  EXPECT_EQ(gpu.write_word(stream(), zero_words(), 1), Error::not_supported);
  EXPECT_EQ(gpu.wait_word(stream(), zero_words(), 0), Error::not_supported);
}

}  // namespace
}  // namespace fairlead::device
