// SPDX-License-Identifier: Apache-2.0

#include "device/copies/copy.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/system/processor.h"
#include "device/blocking_driver_calls.h"
#include "device/classify.h"
#include "device/context.h"
#include "device/copies/submit_copies.h"
#include "observe/ranges.h"
#include "observe/recorder.h"
#include "observe/trace.h"

namespace fairlead::device {

struct CopyStream;

// One driver call: a single copy, or a batch of copies that complete together.
struct Launch {
  CopyStream* copy_stream = nullptr;
  // Recorded when another launch follows on the stream; until then, querying the stream itself is sufficient.
  Event event = nullptr;
  int users = 0;
  Error state = Error::not_ready;
  unsigned polls = 0;
  uint64_t since = 0, bytes = 0;  // used by the trace
};

struct CopyStream {
  int number = 0;
  uint64_t over_at = 0;  // end of the launch before `running`, for the trace
  Stream stream = nullptr;
  std::deque<Launch*> running;  // in stream order
};

namespace {

size_t copy_streams_allowed() {
  return static_cast<size_t>(runtime()->copy_streams());
}

constexpr int attempts_allowed = 3;
// Limits of one batch. The batch completes with its last copy, so larger batches would delay the completion
// of the first copy.
constexpr size_t copies_per_launch = 64;
constexpr size_t bytes_per_launch = size_t{64} << 20;
// This many launches in flight keep a device busy while the next batch gathers copies.
constexpr size_t launches_in_flight = 2;
// A driver query costs about a microsecond. Only the first launch of a stream can have completed, and its
// copies share one state, so together they query once per round of polls; of the enqueued copies only the
// first asks whether they may start. Their owners may be busy elsewhere, so the owners of the others ask as
// well, once in this many polls.
constexpr unsigned polls_without_asking = 16;
constexpr size_t prepared_events = 16;

std::mutex mutex;
std::atomic<int> enqueued = 0;
std::atomic<uint64_t> prepared_devices = 0;  // one bit for each

}  // namespace

// The state of one device. The mutex guards all of it.
struct CopyStreams {
  int device = 0;
  Context context;
  std::vector<std::unique_ptr<CopyStream>> streams;
  std::vector<Event> idle_events;
  std::vector<Launch*> idle_launches;
  std::vector<Copy*> queue;
  size_t turn = 0;
  bool by_direction = false;  // all copies that run are in the streams of their directions

  void begin_anew(int device);
  Error add_stream(const Submission& submission);
  void add(Stream stream);
  Error take_copy_stream(const Submission& submission, CopyStream** taken);
  void mark_end(const Submission& submission, CopyStream& copy_stream);
  Launch* make_launch(CopyStream* copy_stream, size_t users, Error state);
  Error launch(const Submission& submission, const CopyItem* items, size_t count, Launch** launched,
               uint32_t* word = nullptr, uint32_t value = 0);
  void end_first(CopyStream& copy_stream, Error state);
  void ask(CopyStream& copy_stream);
  void drain(CopyStream& copy_stream);
  Error poll(Launch& launch);
  void start_queue(bool all);
};

namespace {

// Never destroyed: the driver may be unloaded before static destructors run.
auto& all_streams = *new std::map<int, CopyStreams>;

CopyStreams& streams_of(int device) {
  const auto [entry, added] = all_streams.try_emplace(device);
  if (added || entry->second.context.is_gone()) entry->second.begin_anew(device);
  return entry->second;
}

}  // namespace

// Copies that were running when the device was reset have failed.
void CopyStreams::begin_anew(int of_device) {
  device = of_device;
  context = Context(device);
  for (auto& copy_stream : streams) {
    while (!copy_stream->running.empty()) end_first(*copy_stream, Error::failed);
    (void)BlockingDriverCalls::of_what_is_gone()->destroy_stream(copy_stream->stream);
  }
  for (Event event : idle_events) (void)BlockingDriverCalls::of_what_is_gone()->destroy_event(event);
  streams.clear();
  idle_events.clear();
  prepared_devices &= ~(uint64_t{1} << device);
}

// Without any stream there is no copy.
Error CopyStreams::add_stream(const Submission& submission) {
  Stream stream = nullptr;
  Runtime* const driver = submission.allocating() ? submission.allocating() : BlockingDriverCalls::at_risk();
  const Error error = driver->create_stream(device, &stream);
  if (error == Error::none) add(stream);
  return error;
}

void CopyStreams::add(Stream stream) {
  auto copy_stream = std::make_unique<CopyStream>();
  copy_stream->stream = stream;
  copy_stream->number = static_cast<int>(streams.size());
  observe::name_stream(runtime()->name(), runtime()->native(stream),
                       ("Fairlead copies " + std::to_string(copy_stream->number)).c_str());
  streams.push_back(std::move(copy_stream));
  by_direction = false;  // the streams of the directions are others
}

// While streams wait, returns the stream of the direction (submit_copies.h). Otherwise an idle stream, else a
// new stream if the limit permits it, else the next busy stream in turn.
Error CopyStreams::take_copy_stream(const Submission& submission, CopyStream** taken) {
  if (!submission.streams_wait()) by_direction = false;
  if (submission.streams_wait() && !streams.empty()) {
    // Copies that began before streams waited may hold all queues of a direction. They wait for nothing.
    if (!std::exchange(by_direction, true))
      for (auto& copy_stream : streams) drain(*copy_stream);
    *taken = streams[submission.direction() % streams.size()].get();
    return Error::none;
  }
  for (auto& copy_stream : streams) {
    if (!copy_stream->running.empty()) continue;
    *taken = copy_stream.get();
    return Error::none;
  }
  if (streams.empty() || (submission.allocating() && streams.size() < copy_streams_allowed())) {
    if (Error error = add_stream(submission); error != Error::none) return error;
    *taken = streams.back().get();
    return Error::none;
  }
  *taken = streams[turn++ % streams.size()].get();
  return Error::none;
}

// Records an event behind the last launch of this stream, because another launch follows and the stream's
// state no longer shows when that launch completes. If no event is available, the launch is still detected as
// complete, but only when the stream is idle.
void CopyStreams::mark_end(const Submission& submission, CopyStream& copy_stream) {
  if (copy_stream.running.empty() || copy_stream.running.back()->event) return;
  Event event = nullptr;
  if (!idle_events.empty()) {
    event = idle_events.back();
    idle_events.pop_back();
  } else if (!submission.allocating() ||
             submission.allocating()->create_event(device, &event) != Error::none) {
    return;
  }
  if (runtime()->record_event(event, copy_stream.stream) == Error::none)
    copy_stream.running.back()->event = event;
  else
    idle_events.push_back(event);
}

Launch* CopyStreams::make_launch(CopyStream* copy_stream, size_t users, Error state) {
  if (idle_launches.empty()) idle_launches.push_back(new Launch);
  Launch* launch = idle_launches.back();
  idle_launches.pop_back();
  *launch = {copy_stream, nullptr, static_cast<int>(users), state};
  return launch;
}

Error CopyStreams::launch(const Submission& submission, const CopyItem* items, size_t count,
                          Launch** launched, uint32_t* word, uint32_t value) {
  CopyStream* copy_stream = nullptr;
  if (Error error = take_copy_stream(submission, &copy_stream); error != Error::none) return error;
  if (submission.by_cpu())
    drain(*copy_stream);  // submit() waits for the stream, and would find others' errors
  mark_end(submission, *copy_stream);
  const uint64_t since = observe::tracing() ? observe::now() : 0;
  Error error = submission.submit(items, count, copy_stream->stream);
  if (error == Error::none && word) error = runtime()->write_word(copy_stream->stream, word, value);
  if (error != Error::none) {
    // Part of it may be running, and no other code waits for that.
    if (count > 1 || word || submission.by_cpu()) wait_by_queries(copy_stream->stream);
    return error;
  }
  *launched = make_launch(copy_stream, count, Error::not_ready);
  if (since > 0) {
    (*launched)->since = since;
    for (size_t i = 0; i < count; ++i) (*launched)->bytes += items[i].bytes * items[i].rows;
  }
  copy_stream->running.push_back(*launched);
  return Error::none;
}

void CopyStreams::end_first(CopyStream& copy_stream, Error state) {
  Launch* first = copy_stream.running.front();
  copy_stream.running.pop_front();
  first->state = state;
  if (first->since > 0 && observe::tracing()) {
    uint64_t begin = std::max(first->since, copy_stream.over_at);
    copy_stream.over_at = observe::now();
    int stream = observe::number_of_stream(device, copy_stream.number);
    observe::trace({observe::EventKind::copy, stream, begin, copy_stream.over_at, first->bytes});
  }
  if (first->event) idle_events.push_back(first->event);
}

void CopyStreams::ask(CopyStream& copy_stream) {
  while (!copy_stream.running.empty()) {
    Event event = copy_stream.running.front()->event;
    Error state = event ? runtime()->query_event(event) : runtime()->query_stream(copy_stream.stream);
    if (state == Error::not_ready) return;
    end_first(copy_stream, state);
  }
}

void CopyStreams::drain(CopyStream& copy_stream) {
  while (!copy_stream.running.empty()) ask(copy_stream);
}

Error CopyStreams::poll(Launch& launch) {
  if (launch.state != Error::not_ready) return launch.state;
  bool first = launch.copy_stream->running.front() == &launch;
  unsigned pause = first ? static_cast<unsigned>(launch.users) : polls_without_asking;
  if (++launch.polls % pause == 0) ask(*launch.copy_stream);
  return launch.state;
}

// Launches the whole queue, or only as much as keeps the device busy.
void CopyStreams::start_queue(bool all) {
  size_t running = 0;
  for (auto& copy_stream : streams) {
    ask(*copy_stream);
    running += copy_stream->running.size();
  }
  size_t done = 0;
  while (done < queue.size() && (all || running < launches_in_flight)) {
    CopyItem items[copies_per_launch];
    size_t count = 0, bytes = 0;
    const Submission submission(queue[done]->item_);
    while (done + count < queue.size() && count < copies_per_launch) {
      const CopyItem& item = queue[done + count]->item_;
      if (count > 0 && (bytes + item.bytes > bytes_per_launch || !submission.takes(item))) break;
      items[count++] = item;
      bytes += item.bytes;
    }
    Launch* launched = nullptr;
    Error error = launch(submission, items, count, &launched);
    if (error != Error::none) launched = make_launch(nullptr, count, error);  // poll() reports the error
    for (size_t i = 0; i < count; ++i) queue[done + i]->launch_ = launched;
    done += count;
    ++running;
  }
  queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(done));
  enqueued -= static_cast<int>(done);
}

Copy::~Copy() {
  wait();
}

Error Copy::start(int device, void* to, const void* from, size_t bytes) {
  return start(device, {to, from, bytes});
}

Error Copy::start_rows(int device, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                       size_t width, size_t rows) {
  return start(device, {to, from, width, rows, to_pitch, from_pitch});
}

Error Copy::start(int device, const CopyItem& item, uint32_t* word, uint32_t value) {
  wait();
  outcome_ = Error::none;
  if (item.bytes == 0) return Error::none;
  if (device < 0) {
    copy_by_cpu(item);
    return Error::none;
  }
  std::lock_guard lock(mutex);
  device_ = device;
  item_ = item;
  word_ = word;
  value_ = value;
  attempts_ = 0;
  return outcome_ = launch();
}

// The caller holds the lock. Retries until the driver accepts the copy.
Error Copy::launch() {
  Error error = Error::failed;
  while (error != Error::none && attempts_ < attempts_allowed) {
    ++attempts_;
    const Submission submission(item_);
    error = streams_of(device_).launch(submission, &item_, 1, &launch_, word_, value_);
  }
  active_ = error == Error::none;
  return error;
}

Error Copy::start_and_tell(int device, void* to, const void* from, size_t bytes, uint32_t* word,
                           uint32_t value) {
  return start(device, {to, from, bytes}, word, value);
}

Error Copy::enqueue(int device, void* to, const void* from, size_t bytes) {
  if (device < 0 || bytes == 0) return start(device, to, from, bytes);
  wait();
  outcome_ = Error::none;
  std::lock_guard lock(mutex);
  device_ = device;
  item_ = {to, from, bytes};
  word_ = nullptr;
  active_ = true;
  polls_ = 0;
  attempts_ = 1;
  streams_of(device).queue.push_back(this);
  ++enqueued;
  return Error::none;
}

Error Copy::poll() {
  if (!active_) return outcome_;
  std::lock_guard lock(mutex);
  CopyStreams& streams = streams_of(device_);
  if (!launch_ && (streams.queue.front() == this || ++polls_ % polls_without_asking == 0))
    streams.start_queue(false);
  if (!launch_ || streams.poll(*launch_) == Error::not_ready) return Error::not_ready;
  outcome_ = leave();
  return outcome_ != Error::none && launch() == Error::none ? Error::not_ready : outcome_;
}

void Copy::start_now() {
  if (!active_) return;
  std::lock_guard lock(mutex);
  if (!launch_) streams_of(device_).start_queue(true);
}

Error Copy::wait() {
  if (!active_) return outcome_;
  start_now();
  Error state;
  while ((state = poll()) == Error::not_ready) relax();
  return state;
}

void Copy::forget() {
  if (!active_) return;
  std::lock_guard lock(mutex);
  CopyStreams& streams = streams_of(device_);
  // Earlier launches on the stream are complete as well, but only the driver can report whether they
  // succeeded.
  while (launch_->state == Error::not_ready && launch_->copy_stream->running.front() != launch_)
    streams.ask(*launch_->copy_stream);
  if (launch_->state == Error::not_ready) streams.end_first(*launch_->copy_stream, Error::none);
  leave();
  outcome_ = Error::none;
}

Error Copy::leave() {
  Error outcome = launch_->state;
  if (--launch_->users == 0) streams_of(device_).idle_launches.push_back(launch_);
  launch_ = nullptr;
  active_ = false;
  return outcome;
}

// Makes the streams and events without the mutex: progress must not wait for it while the driver makes this
// call wait for progress.
static void make_lacking(int device) {
  static std::mutex making;
  std::lock_guard making_lock(making);
  std::vector<Stream> streams;
  std::vector<Event> events;
  size_t streams_lacking = copy_streams_allowed(), events_lacking = prepared_events;
  {
    std::lock_guard lock(mutex);
    const CopyStreams& existing = streams_of(device);
    streams_lacking -= std::min(streams_lacking, existing.streams.size());
    events_lacking -= std::min(events_lacking, existing.idle_events.size());
  }
  for (Stream made; streams.size() < streams_lacking; streams.push_back(made))
    if (BlockingDriverCalls::of_program()->create_stream(device, &made) != Error::none) break;
  for (Event made; events.size() < events_lacking; events.push_back(made))
    if (BlockingDriverCalls::of_program()->create_event(device, &made) != Error::none) break;
  std::lock_guard lock(mutex);
  CopyStreams& all = streams_of(device);
  for (Stream made : streams) all.add(made);
  all.idle_events.insert(all.idle_events.end(), events.begin(), events.end());
  if (!all.streams.empty()) prepared_devices |= uint64_t{1} << device;
}

bool prepare_copies(int device) {
  {
    std::lock_guard lock(mutex);
    (void)streams_of(device);  // which may have been reset
  }
  if (!(prepared_devices >> device & 1)) make_lacking(device);
  prepare_pageable_copies();
  return prepared_devices >> device & 1;
}

void prepare_copies_of_seen() {
  for (uint64_t others = devices_seen() & ~prepared_devices.load(); others; others &= others - 1)
    (void)prepare_copies(std::countr_zero(others));
}

void start_enqueued() {
  if (enqueued.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard lock(mutex);
  for (auto& [device, streams] : all_streams)
    if (!streams.queue.empty()) streams.start_queue(false);
}

Error copy_now(int device, void* to, const void* from, size_t bytes) {
  Copy copy;
  copy.start(device, to, from, bytes);
  return copy.wait();
}

std::optional<Error> try_copy(int device, void* to, const void* from, size_t bytes) {
  constexpr std::chrono::seconds patience{10};
  const BlockingDriverCalls calls;
  Stream stream = nullptr;
  if (!calls.may_allocate() || calls->create_stream(device, &stream) != Error::none) return {};
  const auto end = std::chrono::steady_clock::now() + patience;
  Error state = runtime()->copy(to, from, bytes, stream);
  if (state == Error::none)
    while ((state = runtime()->query_stream(stream)) == Error::not_ready) {
      if (std::chrono::steady_clock::now() > end) return state;
      sched_yield();
    }
  calls->destroy_stream(stream);
  return state;
}

}  // namespace fairlead::device
