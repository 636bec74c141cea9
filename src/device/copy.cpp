// SPDX-License-Identifier: Apache-2.0

#include "device/copy.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/options.h"

namespace fairlead::device {

struct Lane {
  int device;
  Stream stream;
  int users = 0;  // copies started and not yet released
};

namespace {

struct Lanes {
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<Event> idle_events;
  size_t turn = 0;
};

constexpr int attempts = 3;

std::mutex mutex;
// Never destroyed: the driver may be gone before static destructors run.
auto& all_lanes = *new std::map<int, Lanes>;

Error take_lane(int device, Lane** taken) {
  std::lock_guard lock(mutex);
  Lanes& own = all_lanes[device];
  for (auto& lane : own.lanes) {
    if (lane->users == 0) {
      lane->users = 1;
      *taken = lane.get();
      return Error::none;
    }
  }
  if (own.lanes.size() < static_cast<size_t>(options().copy_streams)) {
    auto lane = std::make_unique<Lane>();
    lane->device = device;
    if (Error error = runtime()->create_stream(device, &lane->stream); error != Error::none) return error;
    own.lanes.push_back(std::move(lane));
    *taken = own.lanes.back().get();
  } else {
    *taken = own.lanes[own.turn++ % own.lanes.size()].get();
  }
  ++(*taken)->users;
  return Error::none;
}

Error take_event(int device, Event* event) {
  {
    std::lock_guard lock(mutex);
    auto& idle = all_lanes[device].idle_events;
    if (!idle.empty()) {
      *event = idle.back();
      idle.pop_back();
      return Error::none;
    }
  }
  return runtime()->create_event(device, event);
}

}  // namespace

Copy::~Copy() {
  wait();
}

Error Copy::start(int device, void* to, const void* from, size_t bytes) {
  wait();
  if (bytes == 0) return Error::none;
  if (device < 0) {
    std::memcpy(to, from, bytes);
    return Error::none;
  }
  if (Error error = take_lane(device, &lane_); error != Error::none) return error;
  bool shared = lane_->users > 1;
  Error error = runtime()->copy(to, from, bytes, lane_->stream);
  if (error == Error::none && shared) {
    error = take_event(device, &event_);
    if (error == Error::none) error = runtime()->record_event(event_, lane_->stream);
    // Without an event the lane itself tells, only later.
    if (error != Error::none && error != Error::failed) error = Error::none;
  }
  if (error != Error::none) release();
  return error;
}

Error Copy::poll() {
  if (!lane_) return Error::none;
  Error state = event_ ? runtime()->query_event(event_) : runtime()->query_stream(lane_->stream);
  if (state != Error::not_ready) release();
  return state;
}

Error Copy::wait() {
  Error state;
  while ((state = poll()) == Error::not_ready) __builtin_ia32_pause();
  return state;
}

void Copy::release() {
  std::lock_guard lock(mutex);
  if (event_) all_lanes[lane_->device].idle_events.push_back(event_);
  event_ = nullptr;
  --lane_->users;
  lane_ = nullptr;
}

Error copy_now(int device, void* to, const void* from, size_t bytes) {
  Error error = Error::none;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    Copy copy;
    error = copy.start(device, to, from, bytes);
    if (error == Error::none) error = copy.wait();
    if (error == Error::none) break;
  }
  return error;
}

}  // namespace fairlead::device
