// SPDX-License-Identifier: Apache-2.0
//
// Captures of graphs and MPI calls do not concern each other: messages and collectives with new buffers
// arrive while a stream is being captured, in every mode, by another thread or by the caller itself; captures
// survive; and the caller's mode stays as it was.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <thread>
#include <vector>

#include "device/runtime.h"
#include "harness/harness.h"

using namespace ranks;
using namespace fairlead;
using device::CaptureMode;
using device::Error;
using device::StreamKind;

namespace {

constexpr CaptureMode modes[] = {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed};
constexpr size_t sizes[] = {200, 90000, 3 << 20};

device::Runtime& gpu() {
  return *device::whole_runtime();
}

#define DRIVER(call) EXPECT((call) == Error::none, "%s: %s", #call, gpu().error_text())

// A stream and what is captured there.
class Captured {
 public:
  explicit Captured(StreamKind kind) {
    DRIVER(gpu().current_device(&device_));
    DRIVER(gpu().create_stream(device_, &stream_, kind));
    DRIVER(gpu().allocate(device_, bytes, &memory_));
  }
  ~Captured() {
    DRIVER(gpu().destroy_stream(stream_));
    DRIVER(gpu().free(memory_));
  }
  Captured(const Captured&) = delete;

  int device() const { return device_; }
  void begin(CaptureMode mode) { DRIVER(gpu().begin_capture(stream_, mode)); }
  // Has the capture survived?
  bool end() {
    device::Graph graph = nullptr;
    (void)gpu().fill(memory_, 1, bytes, stream_);
    if (gpu().end_capture(stream_, &graph) != Error::none) return false;
    DRIVER(gpu().destroy_graph(graph));
    return true;
  }

 private:
  static constexpr size_t bytes = 64;
  int device_ = 0;
  device::Stream stream_ = nullptr;
  void* memory_ = nullptr;
};

// A message to the next rank, one from the rank before, and a sum, with new buffers. Only call() calls MPI,
// and it calls nothing else, since the program itself may not do everything beside a capture.
class Communication {
 public:
  Communication(size_t bytes, uint64_t round)
      : round_(round),
        out_(Place::device, bytes),
        in_(Place::device, bytes),
        sums_(Place::device, bytes),
        values_(Place::device, bytes) {
    const std::vector<float> values(bytes / sizeof(float), static_cast<float>(rank + 1));
    values_.write(values.data(), bytes);
    out_.fill(key_of(rank, round));
  }
  void call() {
    const int next = (rank + 1) % size, bytes = static_cast<int>(out_.bytes());
    MUST(MPI_Sendrecv(out_, bytes, MPI_BYTE, next, 1, in_, bytes, MPI_BYTE, before(), 1, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    MUST(MPI_Allreduce(values_, sums_, bytes / static_cast<int>(sizeof(float)), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD));
  }
  void check() const {
    EXPECT_HOLDS(in_, key_of(before(), round_), in_.bytes());
    std::vector<float> sums(sums_.bytes() / sizeof(float));
    sums_.read(sums.data(), sums_.bytes());
    EXPECT(std::ranges::count(sums, static_cast<float>(size * (size + 1) / 2)) == std::ssize(sums),
           "a sum of %zu bytes is wrong", sums_.bytes());
  }

 private:
  static int before() { return (rank + size - 1) % size; }
  uint64_t round_;
  Memory out_, in_, sums_, values_;
};

bool by_another_thread(Captured& captured, CaptureMode mode, Communication& communication) {
  std::promise<void> begun, called;
  bool survived = false;
  std::thread capturing([&] {
    DRIVER(gpu().set_current_device(captured.device()));
    captured.begin(mode);
    begun.set_value();
    called.get_future().wait();
    survived = captured.end();
  });
  begun.get_future().wait();
  communication.call();
  called.set_value();
  capturing.join();
  return survived;
}

bool by_the_caller(Captured& captured, CaptureMode mode, Communication& communication) {
  captured.begin(mode);
  communication.call();
  return captured.end();
}

// Captures while this rank communicates, in each mode beside each size. Returns how many did not survive.
int captures_lost(StreamKind kind, bool (*capture)(Captured&, CaptureMode, Communication&)) {
  constexpr uint64_t rounds = 3;
  int lost = 0;
  Captured captured(kind);
  for (uint64_t round = 0; round < rounds; ++round)
    for (CaptureMode mode : modes)
      for (size_t bytes : sizes) {
        Communication communication(bytes, round);
        lost += !capture(captured, mode, communication);
        communication.check();
      }
  return lost;
}

}  // namespace

RANK_TEST(captures, of_another_thread, 2) {
  if (host_oracle) return skip("needs GPU streams");
  const int lost = captures_lost(StreamKind::application, by_another_thread);
  EXPECT(lost == 0, "%d captures were ended", lost);
}

RANK_TEST(captures, of_the_caller, 2) {
  if (host_oracle) return skip("needs GPU streams");
  const int lost = captures_lost(StreamKind::application, by_the_caller);
  EXPECT(lost == 0, "%d captures were ended", lost);
}

// The question whether a device is idle may end a capture in a stream that does not wait for the default one;
// then it is not asked for a second, two, four ... (docs/use/limits.md).
RANK_TEST(captures, in_streams_that_do_not_wait_for_the_default_one, 2) {
  if (host_oracle) return skip("needs GPU streams");
  const auto start = std::chrono::steady_clock::now();
  const int lost = captures_lost(StreamKind::non_blocking, by_another_thread) +
                   captures_lost(StreamKind::non_blocking, by_the_caller);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT(lost <= 1 + std::log2(1 + took.count()), "%d captures were ended in %g s", lost, took.count());
}

RANK_TEST(captures, leave_the_mode_of_the_caller, 2) {
  if (host_oracle) return skip("needs GPU streams");
  for (CaptureMode mode : modes) {
    CaptureMode exchanged = mode;
    DRIVER(gpu().exchange_capture_mode(&exchanged));
    for (size_t bytes : sizes) Communication(bytes, 0).call();
    DRIVER(gpu().exchange_capture_mode(&exchanged));
    EXPECT(exchanged == mode, "mode %d has become %d", static_cast<int>(mode), static_cast<int>(exchanged));
  }
}
