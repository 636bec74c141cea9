// SPDX-License-Identifier: Apache-2.0

#include "coll/meeting.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "device/buffer_pool.h"
#include "transport/peer.h"

namespace fairlead::coll {

using device::Error;

namespace {

// A communicator that makes few calls shall not pay for a scratch.
constexpr int calls_before = 3;
constexpr int most_tries = 64;
// What scratches of all communicators take of the buffer pool.
constexpr uint64_t bytes_at_most = 8 << 20;
uint64_t bytes_taken = 0;  // guarded by the engine's lock

// Pauses end at the same call on all members, so that their offers meet again.
constexpr int unmet_at_most = 8;
constexpr uint64_t silent_calls = 1000;
constexpr std::chrono::microseconds longest_pause{100};

}  // namespace

MeetingPlace::MeetingPlace(node::Node& node, CollectiveSlot& slot, const std::vector<int>& members)
    : node_(node), slot_(slot), members_(members) {}

// When this rank's last call was over, all that it expected in its scratch had come.
MeetingPlace::~MeetingPlace() {
  if (step_ != Step::left) never();
}

// No other member stores to the scratch: that takes an offer of this one.
void MeetingPlace::never() {
  step_ = Step::never;
  if (late_ && !context_.is_gone()) kernels::give_back_word_of_kernels(device_, late_);
  late_ = nullptr;
  if (scratch_) device::pool_free(std::exchange(scratch_, nullptr));
  bytes_taken -= std::exchange(scratch_bytes_, 0);
}

bool MeetingPlace::offers(uint64_t number, const MeetCall& call) {
  if (step_ == Step::counting && ++calls_ > calls_before) expose(number, call.device);
  // Slots that were never used hold the number 0.
  if (step_ != Step::ready || static_cast<uint32_t>(number) == 0 || number <= silent_to_ ||
      call.device != device_ || context_.is_gone())
    return false;
  slot_.record(slot_.me(), number).meeting = call.signature;
  return true;
}

// Leaves the step as it is if another try may help.
void MeetingPlace::expose(uint64_t number, int device) {
  if (!kernels::meetings_run_on(device)) return;  // the device may be busy now
  const uint64_t slot_bytes = kernels::meet_slot_bytes(slot_.members());
  const uint64_t bytes =
      kernels::exchange_header_bytes + kernels::meet_slots_bytes(slot_.members(), slot_bytes);
  if (bytes_taken + bytes > bytes_at_most) return never();
  device_ = device;
  context_ = device::Context(device);
  late_ = kernels::take_word_of_kernels(device);
  MemberArea& mine = slot_.area(slot_.me());
  if (late_)
    scratch_ =
        static_cast<char*>(transport::make_scratch(node_, members_, device, bytes, bytes, &mine.scratch));
  if (!scratch_) return never();
  bytes_taken += scratch_bytes_ = bytes;
  mine.scratch_device = device;
  mine.scratch_from.store(number, std::memory_order_release);
  step_ = Step::exposed;
}

void MeetingPlace::run_otherwise(uint64_t number, bool had_offered) {
  if (step_ == Step::exposed) map_others(number);
  if (!had_offered || ++unmet_ < unmet_at_most) return;
  unmet_ = 0;
  silent_to_ = (number / silent_calls + 1) * silent_calls;
}

// Those that have exported none after so many calls never will.
void MeetingPlace::map_others(uint64_t number) {
  for (int member = 0; member < slot_.members(); ++member) {
    const uint64_t from = slot_.area(member).scratch_from.load(std::memory_order_acquire);
    if (from != 0 && from <= number) continue;
    if (++tries_ > most_tries) never();
    return;
  }
  mapped_.resize(members_.size());
  for (size_t member = 0; member < members_.size(); ++member) {
    scratches_.push_back(scratch_);
    if (members_[member] == node_.rank()) continue;
    const MemberArea& its = slot_.area(static_cast<int>(member));
    if (!transport::reach_from(node_, members_[member], node::read_once(its.scratch_device), device_,
                               node::read_once(its.scratch), &mapped_[member]) ||
        mapped_[member].bytes() < scratch_bytes_)
      return never();
    scratches_.back() = static_cast<char*>(mapped_[member].address());
  }
  step_ = Step::ready;
  log_line(LogLevel::debug, "small collectives of %d ranks meet in a kernel from now on", slot_.members());
}

// In a call that all announced, each member's record holds what it announced.
bool MeetingPlace::all_agree(uint64_t number, const MeetCall& call) {
  for (int member = 0; member < slot_.members(); ++member)
    if (node::read_once(slot_.record(member, number).meeting) != call.signature) return false;
  return true;
}

Progress MeetingPlace::advance(uint64_t number, const MeetCall& call) {
  if (step_ != Step::ready) return Progress::failed;
  if (launched_ != number) {
    launched_ = number;
    first_ = true;
    pause_ = {};
  }
  if (!running_) {
    if (!first_ && std::chrono::steady_clock::now() < again_) return Progress::waiting;
    if (!launch(number, call)) return fail(number, device::runtime()->error_text());
    if (!running_) return Progress::waiting;
  }
  const Error state = kernel_.poll();
  if (state == Error::not_ready) return Progress::waiting;
  running_ = false;
  if (state != Error::none) return fail(number, device::runtime()->error_text());
  if (std::atomic_ref(*late_).load(std::memory_order_acquire) != static_cast<uint32_t>(number)) {
    unmet_ = 0;
    return Progress::over;
  }
  *late_ = 0;
  first_ = false;
  if (any_failed(number)) return fail(number, "another rank has failed");
  if (slot_.is_damaged(number)) return fail(number, "another process has damaged its records");
  pause_ = std::min(longest_pause, pause_ * 2 + std::chrono::microseconds(10));
  again_ = std::chrono::steady_clock::now() + pause_;
  return Progress::waiting;
}

// False: it cannot be launched. Not running afterwards: not now.
bool MeetingPlace::launch(uint64_t number, const MeetCall& call) {
  kernels::Meet meet = call.meet;
  meet.scratches = scratches_.data();
  meet.me = slot_.me();
  meet.ranks = slot_.members();
  meet.slot_bytes = kernels::meet_slot_bytes(slot_.members());
  meet.number = static_cast<uint32_t>(number);
  meet.flag = late_;
  kernel_.writes_own_memory(call.result_in_own_memory);
  const Attempt started = kernel_.meet(device_, meet, first_);
  running_ = started == Attempt::made;
  return started != Attempt::never;
}

bool MeetingPlace::any_failed(uint64_t number) {
  for (int member = 0; member < slot_.members(); ++member)
    if (slot_.record(member, number).failed.load(std::memory_order_acquire) == number ||
        slot_.gave_up(member, number))
      return true;
  return false;
}

// Members that miss this one's blocks learn it from the record.
Progress MeetingPlace::fail(uint64_t number, const char* why) {
  log_line(LogLevel::error, "a collective on the GPU failed: %s", why);
  slot_.record(slot_.me(), number).failed.store(number, std::memory_order_release);
  step_ = Step::left;
  return Progress::failed;
}

bool MeetingPlace::abandon() {
  step_ = Step::left;
  running_ = running_ && kernel_.poll() == Error::not_ready;
  return !running_;
}

}  // namespace fairlead::coll
