// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/progress_thread.h"

#include <sys/prctl.h>

#include <algorithm>

#include "base/library_thread.h"
#include "base/log.h"
#include "base/options.h"
#include "base/system/processor.h"
#include "device/blocking_driver_calls.h"
#include "device/copies/copy.h"
#include "device/program/not_the_program.h"
#include "mpi/core/engine.h"
#include "mpi/core/hooks.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds for_ever = 24h;
// While every operation waits for a message, of which a ring tells unless it came from host memory, or for
// GPUs and other ranks that need nothing of this one.
constexpr std::chrono::nanoseconds pause_between_checks = 1ms;
// Pauses grow with the time since the last ring, so that what lasts long costs little: first half of that
// time (of enqueued operations an eighth), up to 50 us, and after 100 ms a part of it that is 1 ms after 2 s,
// and 5 ms in the end. In a virtual machine a pause costs 5 to 9 us of the CPU, and waking up takes as long.
std::chrono::nanoseconds pause_after(std::chrono::nanoseconds since_ring, int part = 2) {
  const std::chrono::nanoseconds shortest = 10us, longest_of_short = 50us, longest = 5ms;
  return std::max(std::clamp(since_ring / part, shortest, longest_of_short),
                  std::min(since_ring / 2000, longest));
}
// Nobody rings for short collectives while the thread checks, so it does so for a while after the last ring.
constexpr std::chrono::nanoseconds lingers = 100ms;
// The GPU does not ring when a stream comes to an operation. A round trip between stream and CPU takes 4 us,
// so for a while after something has happened the thread looks again at once.
constexpr std::chrono::nanoseconds looks_at_streams = 200us;
// A request of another rank waits this long for an answer.
constexpr std::chrono::nanoseconds pause_of_windows = 20us;

}  // namespace

ProgressThread& progress_thread() {
  // Never destroyed: the process may exit while the thread runs.
  static auto* only = new ProgressThread;
  return *only;
}

// Constructors of the program's objects set them in any order.
static bool program_asks = false, program_imports = false, program_keeps = false;

void ProgressThread::expect_enqueued() {
  program_asks = true;
}

void ProgressThread::expect_enqueued_by_imports() {
  program_imports = true;
}

void ProgressThread::disregard_imports() {
  program_keeps = true;
}

bool ProgressThread::wants_threads() {
  return options().progress_thread || program_asks || (program_imports && !program_keeps);
}

void ProgressThread::allow_host_calls(bool threads) {
  may_call_host_ = threads;
  if (windows_ > 0 && threads) wake();
  if (wants_threads() && !threads)
    log_line(
        LogLevel::warn, "%s, but this MPI does not provide MPI_THREAD_MULTIPLE; %s",
        options().progress_thread ? "FAIRLEAD_PROGRESS_THREAD is on" : "the program uses MPI on GPU streams",
        options().progress_thread ? "messages and windows make progress in MPI calls only"
                                  : "MPIX_Stream_comm_create will fail");
}

// A handler of the program's that this thread has called may end the process.
void ProgressThread::end_host_calls() {
  if (std::this_thread::get_id() == thread_.get_id()) return;
  std::lock_guard no_round(calling_host_);
  may_call_host_ = false;
}

void ProgressThread::help(Operation* operation) {
  operations_.push_back(operation);
  ++outstanding_;
}

void ProgressThread::forget(Operation* operation) {
  outstanding_ -= static_cast<int>(std::erase(operations_, operation));
}

bool ProgressThread::helps_messages() const {
  return may_call_host_.load(std::memory_order_relaxed) && (options().progress_thread || enqueued_ > 0);
}

void ProgressThread::begin() {
  ++outstanding_;
  stand_by();
}

void ProgressThread::stand_by() {
  start();
  doorbell_.load()->listen(heard());
}

void ProgressThread::begin_enqueued() {
  device::BlockingDriverCalls::exclude();
  begin();
  if (enqueued_++ == 0) wake();
}

void ProgressThread::keep_in_graph() {
  device::BlockingDriverCalls::add_graph_wait();
  device::BlockingDriverCalls::allow();
}

void ProgressThread::end_enqueued(bool in_graph) {
  --enqueued_;
  --outstanding_;
  if (in_graph)
    device::BlockingDriverCalls::remove_graph_wait();
  else
    device::BlockingDriverCalls::allow();
}

// What has come while the program polled, but after its last round, has rung nowhere; the thread looks for it
// at its next check.
void ProgressThread::attend(bool attended) {
  doorbell_.load()->listen(attended ? node::Hears::nothing : heard());
  if (!attended && sleeps_for_ever_) wake();
}

node::Hears ProgressThread::heard() const {
  return helps_messages() ? node::Hears::all : node::Hears::arrivals;
}

// Of this thread's store and those of others, which count first and then store, the last is right.
void ProgressThread::listen() {
  node::Doorbell& doorbell = *doorbell_;
  doorbell.listen(node::Hears::nothing);
  if (outstanding_ > 0 && !engine().attended()) doorbell.listen(heard());
}

void ProgressThread::note_active_message_window(int change) {
  windows_ += change;
  if (may_call_host_ && serves_windows()) wake();
}

void ProgressThread::note_blocked_thread(int change) {
  blocked_ += change;
  if (change > 0 && (outstanding_ > 0 || (windows_ > 0 && may_call_host_))) wake();
}

void ProgressThread::use(node::Doorbell* doorbell) {
  doorbell_.exchange(doorbell ? doorbell : &own_)->ring();
}

void ProgressThread::stop() {
  if (!thread_.joinable() || std::this_thread::get_id() == thread_.get_id()) return;
  stopping_ = true;
  doorbell_.load()->ring();
  thread_.join();
  started_ = stopping_ = false;
  sleeps_for_ever_ = true;
  // The program has not completed these.
  outstanding_ -= static_cast<int>(operations_.size());
  operations_.clear();
}

void ProgressThread::wake() {
  doorbell_.load()->ring();
  start();
}

void ProgressThread::start() {
  if (started_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(starting_);
  if (started_.exchange(true)) return;
  thread_ = start_library_thread("fairlead-prog", [this] { run(); });
}

bool ProgressThread::exists() {
  start();
  std::lock_guard lock(starting_);
  return thread_.joinable();
}

void ProgressThread::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; 50 us otherwise, which is longer than most pauses
  // Each call of the driver then need not change the mode for itself (device/guarded.h).
  auto mode = device::CaptureMode::relaxed;
  if (device::PromptRuntime* gpu = device::runtime()) gpu->exchange_capture_mode(&mode);
  device::BlockingDriverCalls::in_thread_of_library = true;
  const device::program::NotTheProgram calls_of_library;
  uint32_t last = 0;
  for (auto rung = Clock::now();;) {
    node::Doorbell& doorbell = *doorbell_;
    const uint32_t rings = doorbell.rings();
    if (stopping_) return;
    if (&doorbell != doorbell_.load()) continue;  // use() may have rung the former one before that was read
    if (rings != last) rung = Clock::now();
    last = rings;
    const Duration pause = round(Clock::now() - rung);
    sleeps_for_ever_ = pause == for_ever;
    if (pause == for_ever && outstanding_ > 0) continue;
    if (pause == Duration::zero())
      make_way();
    else
      doorbell.wait(rings, pause);
  }
}

void ProgressThread::make_way() {
  constexpr std::chrono::nanoseconds longest = 20us;
  std::this_thread::yield();
  if (called_ == 0) return;
  for (const auto start = Clock::now(); called_ > 0 && Clock::now() - start < longest;) relax();
}

bool ProgressThread::serves_windows() const {
  return windows_ > 0 && (blocked_ > 0 || options().progress_thread);
}

ProgressThread::Duration ProgressThread::round(Duration since_ring) {
  listen();
  const bool needed = outstanding_ > 0 && !engine().attended();
  const auto pause = pause_after(since_ring);
  if (needed || serves_windows()) {
    std::lock_guard calling(calling_host_);
    if (may_call_host_ && (serves_windows() || helps_messages())) {
      for (const Hooks& hooks : all_hooks())
        if (hooks.lend_device) hooks.lend_device();
      engine().progress();
      if (serves_windows()) return pause_of_windows;
      if (enqueued_ > 0) return since_ring < looks_at_streams ? Duration::zero() : pause_after(since_ring, 8);
      const Engine::State state = engine().state();
      const bool rings_tell = state == Engine::State::awaits && !engine().spans_nodes();
      return state == Engine::State::idle || rings_tell ? std::max(pause_between_checks, pause) : pause;
    }
  }
  if (outstanding_ == 0) return since_ring < lingers ? pause_between_checks : for_ever;
  if (!needed) return pause_between_checks;
  std::lock_guard lock(engine().mutex());
  if (operations_.empty()) return pause_between_checks;
  bool moves = false;
  // In the order of their starts. An operation that completes removes itself from the list.
  for (size_t i = 0; i < operations_.size();) {
    Operation* const operation = operations_[i];
    operation->advance_without_host();
    if (i == operations_.size() || operations_[i] != operation) continue;
    moves |= operation->worth_watching();
    ++i;
  }
  device::start_enqueued();
  return moves ? pause : std::max(pause_between_checks, pause);
}

}  // namespace fairlead::mpi
