// SPDX-License-Identifier: Apache-2.0

#include "device/copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/options.h"
#include "observe/recorder.h"
#include "observe/trace.h"

namespace fairlead::device {

struct CopyStream;

// One call of the driver: a copy, or several that are done together.
struct Launch {
  CopyStream* lane = nullptr;
  Event event = nullptr;  // recorded once something follows on the lane; before that, the stream itself tells
  int users = 0;
  Error state = Error::not_ready;
  unsigned polls = 0;
  uint64_t since = 0, bytes = 0;  // for the trace
};

struct CopyStream {
  int number = 0;
  uint64_t over_at = 0;  // the launch before `running`, for the trace
  Stream stream = nullptr;
  std::deque<Launch*> running;  // in the order of the stream
};

namespace {

size_t lanes_allowed() {
  return static_cast<size_t>(options().copy_streams > 0 ? options().copy_streams : runtime()->copy_streams());
}

constexpr int attempts_allowed = 3;
// What a call may carry: the last of its copies tells of all, so that the first must not wait for long.
constexpr size_t copies_per_launch = 64;
constexpr size_t bytes_per_launch = size_t{64} << 20;
// Calls in flight that keep a device busy while the next one gathers copies.
constexpr size_t launches_in_flight = 2;
// Asking the driver costs about a microsecond. Only the first launch of a lane can be over, and all its
// copies share the answer; but its owner may be busy elsewhere, so that now and then others ask, too.
constexpr unsigned polls_without_asking = 16;

std::mutex mutex;
std::atomic<int> enqueued = 0;

}  // namespace

// Of one device; the mutex guards all of it.
struct Lanes {
  int device = 0;
  std::vector<std::unique_ptr<CopyStream>> lanes;
  std::vector<Event> idle_events;
  std::vector<Launch*> idle_launches;
  std::vector<Copy*> queue;
  size_t turn = 0;

  Error take_lane(CopyStream** taken);
  void mark_end(CopyStream& lane);
  Launch* make_launch(CopyStream* lane, size_t users, Error state);
  Error launch(const CopyItem* items, size_t count, Launch** launched);
  void end_first(CopyStream& lane, Error state);
  void ask(CopyStream& lane);
  Error poll(Launch& launch);
  void start_queue(bool all);
};

namespace {

// Never destroyed: the driver may be gone before static destructors run.
auto& all_lanes = *new std::map<int, Lanes>;

// Rows come alone.
Error start_on(Stream stream, const CopyItem* items, size_t count) {
  if (count > 1) return runtime()->copy_batch(items, count, stream);
  const auto& [to, from, bytes, rows, to_pitch, from_pitch] = *items;
  if (rows == 1) return runtime()->copy(to, from, bytes, stream);
  return runtime()->copy_2d(to, to_pitch, from, from_pitch, bytes, rows, stream);
}

Lanes& lanes_of(int device) {
  Lanes& lanes = all_lanes[device];
  lanes.device = device;
  return lanes;
}

}  // namespace

// An idle one if there is one, a new one if there may be more, else one behind whose work to wait.
Error Lanes::take_lane(CopyStream** taken) {
  for (auto& lane : lanes) {
    if (!lane->running.empty()) continue;
    *taken = lane.get();
    return Error::none;
  }
  if (lanes.size() < lanes_allowed()) {
    auto lane = std::make_unique<CopyStream>();
    if (Error error = runtime()->create_stream(device, &lane->stream); error != Error::none) return error;
    lane->number = static_cast<int>(lanes.size());
    lanes.push_back(std::move(lane));
    *taken = lanes.back().get();
  } else {
    *taken = lanes[turn++ % lanes.size()].get();
  }
  return Error::none;
}

// Something will follow on this lane, so that the stream no longer tells when what runs there now is over.
// Without an event that is known later, but still known.
void Lanes::mark_end(CopyStream& lane) {
  if (lane.running.empty() || lane.running.back()->event) return;
  Event event = nullptr;
  if (!idle_events.empty()) {
    event = idle_events.back();
    idle_events.pop_back();
  } else if (runtime()->create_event(device, &event) != Error::none) {
    return;
  }
  if (runtime()->record_event(event, lane.stream) == Error::none)
    lane.running.back()->event = event;
  else
    idle_events.push_back(event);
}

Launch* Lanes::make_launch(CopyStream* lane, size_t users, Error state) {
  if (idle_launches.empty()) idle_launches.push_back(new Launch);
  Launch* launch = idle_launches.back();
  idle_launches.pop_back();
  *launch = {lane, nullptr, static_cast<int>(users), state};
  return launch;
}

Error Lanes::launch(const CopyItem* items, size_t count, Launch** launched) {
  CopyStream* lane = nullptr;
  if (Error error = take_lane(&lane); error != Error::none) return error;
  mark_end(*lane);
  Error error = start_on(lane->stream, items, count);
  if (error != Error::none) {
    // Some of a batch may have started; nobody will wait for them.
    if (count > 1) runtime()->synchronize_stream(lane->stream);
    return error;
  }
  *launched = make_launch(lane, count, Error::not_ready);
  if (observe::tracing()) {
    (*launched)->since = observe::now();
    for (size_t i = 0; i < count; ++i) (*launched)->bytes += items[i].bytes * items[i].rows;
  }
  lane->running.push_back(*launched);
  return Error::none;
}

void Lanes::end_first(CopyStream& lane, Error state) {
  Launch* first = lane.running.front();
  lane.running.pop_front();
  first->state = state;
  if (first->since > 0 && observe::tracing()) {
    uint64_t begin = std::max(first->since, lane.over_at);
    lane.over_at = observe::now();
    int stream = observe::number_of_stream(device, lane.number);
    observe::trace({observe::EventKind::copy, stream, begin, lane.over_at, first->bytes});
  }
  if (first->event) idle_events.push_back(first->event);
}

void Lanes::ask(CopyStream& lane) {
  while (!lane.running.empty()) {
    Event event = lane.running.front()->event;
    Error state = event ? runtime()->query_event(event) : runtime()->query_stream(lane.stream);
    if (state == Error::not_ready) return;
    end_first(lane, state);
  }
}

Error Lanes::poll(Launch& launch) {
  if (launch.state != Error::not_ready) return launch.state;
  bool first = launch.lane->running.front() == &launch;
  unsigned pause = first ? static_cast<unsigned>(launch.users) : polls_without_asking;
  if (++launch.polls % pause == 0) ask(*launch.lane);
  return launch.state;
}

// All, or as many as keep the device busy.
void Lanes::start_queue(bool all) {
  size_t running = 0;
  for (auto& lane : lanes) {
    ask(*lane);
    running += lane->running.size();
  }
  size_t done = 0;
  while (done < queue.size() && (all || running < launches_in_flight)) {
    CopyItem items[copies_per_launch];
    size_t count = 0, bytes = 0;
    while (done + count < queue.size() && count < copies_per_launch) {
      const CopyItem& item = queue[done + count]->item_;
      if (count > 0 && bytes + item.bytes > bytes_per_launch) break;
      items[count++] = item;
      bytes += item.bytes;
    }
    Launch* launched = nullptr;
    Error error = launch(items, count, &launched);
    if (error != Error::none) launched = make_launch(nullptr, count, error);  // each learns it when it asks
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

Error Copy::start(int device, const CopyItem& item) {
  wait();
  outcome_ = Error::none;
  if (item.bytes == 0) return Error::none;
  if (device < 0) {
    for (size_t row = 0; row < item.rows; ++row)
      std::memcpy(static_cast<char*>(item.to) + row * item.to_pitch,
                  static_cast<const char*>(item.from) + row * item.from_pitch, item.bytes);
    return Error::none;
  }
  std::lock_guard lock(mutex);
  device_ = device;
  item_ = item;
  attempts_ = 0;
  return outcome_ = launch();
}

// Under the lock: tries until the driver takes it.
Error Copy::launch() {
  Error error = Error::failed;
  while (error != Error::none && attempts_ < attempts_allowed) {
    ++attempts_;
    error = lanes_of(device_).launch(&item_, 1, &launch_);
  }
  active_ = error == Error::none;
  return error;
}

Error Copy::enqueue(int device, void* to, const void* from, size_t bytes) {
  if (device < 0 || bytes == 0) return start(device, to, from, bytes);
  wait();
  outcome_ = Error::none;
  std::lock_guard lock(mutex);
  device_ = device;
  item_ = {to, from, bytes};
  active_ = true;
  attempts_ = 1;
  lanes_of(device).queue.push_back(this);
  ++enqueued;
  return Error::none;
}

Error Copy::poll() {
  if (!active_) return outcome_;
  std::lock_guard lock(mutex);
  Lanes& lanes = lanes_of(device_);
  if (!launch_) lanes.start_queue(false);
  if (!launch_ || lanes.poll(*launch_) == Error::not_ready) return Error::not_ready;
  outcome_ = leave();
  return outcome_ != Error::none && launch() == Error::none ? Error::not_ready : outcome_;
}

Error Copy::wait() {
  if (!active_) return outcome_;
  {
    std::lock_guard lock(mutex);
    if (!launch_) lanes_of(device_).start_queue(true);
  }
  Error state;
  while ((state = poll()) == Error::not_ready) __builtin_ia32_pause();
  return state;
}

void Copy::forget() {
  if (!active_) return;
  std::lock_guard lock(mutex);
  Lanes& lanes = lanes_of(device_);
  // What came before it on the lane is over as well; whether it went well, the driver tells.
  while (launch_->state == Error::not_ready && launch_->lane->running.front() != launch_)
    lanes.ask(*launch_->lane);
  if (launch_->state == Error::not_ready) lanes.end_first(*launch_->lane, Error::none);
  leave();
  outcome_ = Error::none;
}

Error Copy::leave() {
  Error outcome = launch_->state;
  if (--launch_->users == 0) lanes_of(device_).idle_launches.push_back(launch_);
  launch_ = nullptr;
  active_ = false;
  return outcome;
}

void start_enqueued() {
  if (enqueued.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard lock(mutex);
  for (auto& [device, lanes] : all_lanes)
    if (!lanes.queue.empty()) lanes.start_queue(false);
}

Error copy_now(int device, void* to, const void* from, size_t bytes) {
  Copy copy;
  copy.start(device, to, from, bytes);
  return copy.wait();
}

}  // namespace fairlead::device
