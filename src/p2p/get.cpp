// SPDX-License-Identifier: Apache-2.0

#include "p2p/get.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/system/processor.h"
#include "device/classify.h"
#include "device/copies/submit_copies.h"
#include "p2p/rendezvous_send.h"
#include "p2p/rts_check.h"

namespace fairlead::p2p {

using device::Error;
using node::Path;
using node::Reason;
using node::RendezvousState;

namespace {

using Clock = std::chrono::steady_clock;

// Interval and total time of retries while the sender is blocked in the host MPI and cannot help.
constexpr auto retry_pause = std::chrono::milliseconds(1);
constexpr auto retry_time = std::chrono::seconds(5);

}  // namespace

RendezvousGet::RendezvousGet(node::Node& node, const RtsHeader& rts, const packing::View& to,
                             uint64_t capacity, int device, std::unique_ptr<PostedBuffer> posted)
    : node_(node),
      rts_(rts),
      rendezvous_(node.block(rts.sender).rendezvous[rts.number]),
      to_(to),
      capacity_(capacity),
      device_(device),
      posted_(std::move(posted)) {
  // Its sender claims it before it sends the RTS header.
  if (posted_ && posted_->withdraw()) posted_.reset();
}

Error RendezvousGet::advance() {
  const Error state = step();
  const bool awaits_sender = step_ != Step::copying && step_ != Step::passing;
  if (state == Error::not_ready && awaits_sender && rare_look_.due()) report_stall();
  return state;
}

// The message is matched, so its sender owes the bytes.
void RendezvousGet::report_stall() {
  if (stream_ && stream_->chunks_received() != chunks_reported_) {
    chunks_reported_ = stream_->chunks_received();
    report_timer_.restart();
  }
  if (const int seconds = report_timer_.due())
    log_line(LogLevel::warn,
             "a matched device message of %llu bytes from rank %d has been waiting for %d s for its sender",
             static_cast<unsigned long long>(rts_.bytes), node_.world_rank(rts_.sender), seconds);
}

Error RendezvousGet::step() {
  switch (step_) {
    case Step::looking: {
      RendezvousState state = rendezvous_.state.load(std::memory_order_acquire);
      if (state == RendezvousState::put) {
        if (!posted_ || rendezvous_.posted != posted_->index()) return damaged();
        step_ = Step::filling;
        return step();
      }
      if (posted_) {  // the sender has claimed it, but could not write to it
        posted_->give_up();
        posted_.reset();
      }
      if (state == RendezvousState::announced || state == RendezvousState::moving) return Error::not_ready;
      const bool fetched = state == RendezvousState::offered || state == RendezvousState::buffered;
      owner_device_ = node::read_once(rendezvous_.device);
      if ((!fetched && state != RendezvousState::pipelined) ||
          !is_sound(rendezvous_, rts_.bytes, owner_device_))
        return damaged();
      if (fetched) return claim(state);
      if (truncated()) return over(Error::none);
      reconsider();
      stream_.emplace(node_, rts_.sender, rendezvous_, device_, to_, rts_.bytes);
      step_ = Step::pipelining;
      return step();
    }
    case Step::filling:
      if (const Error state = posted_->state(); state != Error::not_ready)
        return state == Error::none ? over(state) : damaged();
      if (rendezvous_.state.load(std::memory_order_acquire) == RendezvousState::put) return Error::not_ready;
      step_ = Step::looking;
      return step();
    case Step::copying: {
      Error state = copy_.poll();
      if (state == Error::none && pinned_.data()) std::memcpy(to_.address(), pinned_.data(), rts_.bytes);
      if (state == Error::none) return over(state);
      return state == Error::not_ready ? state : cannot_copy();
    }
    case Step::passing:
      return pass_piece();
    case Step::refused:  // the sender answers with a pipelined transfer
      if (rendezvous_.state.load(std::memory_order_acquire) == RendezvousState::refused) return insist();
      step_ = Step::looking;
      return step();
    case Step::pipelining: {
      Error state = stream_->advance();
      return state == Error::not_ready ? state : over(state);
    }
    case Step::over:
      return result_;
  }
  return Error::failed;
}

// The receiver claims only what it can fetch, because a claim lets the sender stop polling. The sender may be
// moving the bytes to a buffer at the same time: the compare-exchange lets only one of the two succeed.
Error RendezvousGet::claim(RendezvousState from) {
  Reason reason = Reason::none;
  if (!truncated()) {
    const node::RemoteMemory source = rendezvous_.source;
    const kernels::StridedShape shape = rendezvous_.shape;
    const int64_t first = rendezvous_.first;
    if (!rendezvous_.is_still(from)) return Error::not_ready;
    reason = find(source, shape, first);
    if (reason == Reason::damaged) return damaged();
  }
  RendezvousState to = reason == Reason::none ? RendezvousState::claimed : RendezvousState::refused;
  if (to == RendezvousState::refused) rendezvous_.reason.store(reason, std::memory_order_relaxed);
  if (!rendezvous_.state.compare_exchange_strong(from, to)) {
    mapped_ = {};
    return Error::not_ready;
  }
  if (truncated()) return over(Error::none);
  return to == RendezvousState::claimed ? fetch() : refused(reason);
}

// A message of this process to itself: where its bytes are is not read from memory that others can change.
Reason RendezvousGet::find_own() {
  const RendezvousSend* const send = RendezvousSend::of_this_rank(rts_.number);
  if (!send || send->bytes() != rts_.bytes) return Reason::damaged;
  from_ = send->view();
  owner_device_ = send->device();
  const bool direct =
      device_ >= 0 && to_.contiguous() && device::may_copy_across(device_, owner_device_, from_.address());
  copying_device_ = direct ? device_ : owner_device_;
  return from_.contiguous() || kernels_reach_both() ? Reason::none : Reason::no_kernel;
}

// Maps the sender's bytes into this process.
Reason RendezvousGet::find(const node::RemoteMemory& source, const kernels::StridedShape& shape,
                           int64_t first) {
  if (rts_.sender == node_.rank()) return find_own();
  if (!is_sound(source, shape, first, rts_.bytes)) return Reason::damaged;
  copying_device_ = device_ >= 0 ? device_ : device::device_in_use();
  if (copying_device_ < 0) {
    node_.decide(rts_.sender, owner_device_, node_.rank(), Path::staged, Reason::no_context, "");
    return Reason::no_context;
  }
  Reason reason = transport::reach(node_, rts_.sender, owner_device_, &copying_device_, source, &mapped_);
  if (reason != Reason::none) return reason;
  from_ = {static_cast<char*>(mapped_.address()) + first, shape};
  return from_.contiguous() || kernels_reach_both() ? Reason::none : Reason::no_kernel;
}

bool RendezvousGet::kernels_reach_both() const {
  bool same_device = rts_.sender != node_.rank() || owner_device_ == device_;
  return device_ >= 0 && copying_device_ == device_ && same_device && packing::Move::possible(device_);
}

// A piece of a message that neither a kernel nor a copy moves in one step: of other layouts, or to another
// device.
Error RendezvousGet::pass_piece() {
  const uint64_t bytes = std::min(rts_.bytes - passed_, packing::longest_piece);
  if (!between_.data()) return cannot_copy();
  Error error = packing::copy_out(copying_device_, between_.data(), from_, passed_, bytes);
  if (error == Error::none) error = packing::copy_in(device_, to_, passed_, between_.data(), bytes);
  if (error != Error::none) return cannot_copy();
  passed_ += bytes;
  return passed_ < rts_.bytes ? Error::not_ready : over(error);
}

Error RendezvousGet::fetch() {
  step_ = Step::copying;
  const bool gaps = !from_.contiguous() || !to_.contiguous();
  if (gaps ? !kernels_reach_both() : !device::may_copy_across(copying_device_, device_, to_.address())) {
    between_ = HostBuffer(std::min(rts_.bytes, packing::longest_piece));
    passed_ = 0;
    step_ = Step::passing;
    return pass_piece();
  }
  bool to_host = device_ < 0;
  void* to = to_.address();
  const void* from = from_.address();
  if (to_host && rts_.bytes <= device::watched_bytes &&
      device::copy_to_host(copying_device_, to, from, rts_.bytes) == Error::none)
    return over(Error::none);
  if (to_host && rts_.bytes <= device::small_copy_bytes) pinned_ = device::Slot::take();
  // Messages that arrive in the same round share a batch of copies. Copies to pageable memory are not
  // batched.
  Error error = Error::none;
  if (pinned_.data())
    error = copy_.enqueue(copying_device_, {pinned_.data(), rts_.bytes}, from_, rts_.bytes);
  else if (to_host)
    error = copy_.start(copying_device_, to_, 0, from_, 0, rts_.bytes);
  else if (gaps)
    error = copy_.start(device_, to_, 0, from_, 0, rts_.bytes);
  else
    error = copy_.enqueue(copying_device_, to_, from_, rts_.bytes);
  return error == Error::none ? Error::not_ready : cannot_copy();
}

Error RendezvousGet::cannot_copy() {
  rendezvous_.reason.store(Reason::copy_failed, std::memory_order_relaxed);
  rendezvous_.state.store(RendezvousState::refused, std::memory_order_release);
  return refused(Reason::copy_failed);
}

Error RendezvousGet::refused(Reason reason) {
  log_line(LogLevel::debug, "message of rank %d is fetched through host memory: %s %s",
           node_.world_rank(rts_.sender), to_string(reason),
           reason == Reason::copy_failed ? device::runtime()->error_text() : "");
  mapped_ = {};
  between_ = {};
  pinned_ = {};
  step_ = Step::refused;
  return Error::not_ready;
}

// A sender may have stopped polling because this rank has fetched from this memory before. It does
// not answer a refusal, so this rank must retry.
Error RendezvousGet::insist() {
  if (!node_.block(rts_.sender).blocked_in_host.load(std::memory_order_acquire)) return Error::not_ready;
  auto now = Clock::now();
  if (insisting_since_ == Clock::time_point{}) insisting_since_ = now;
  if (now - insisted_ < retry_pause) return Error::not_ready;
  insisted_ = now;
  bool too_late = now - insisting_since_ > retry_time;
  const node::RemoteMemory source = node::read_once(rendezvous_.source);
  const kernels::StridedShape shape = node::read_once(rendezvous_.shape);
  bool found = !too_late && find(source, shape, node::read_once(rendezvous_.first)) == Reason::none;
  RendezvousState state = RendezvousState::refused;
  if ((!found && !too_late) || !rendezvous_.state.compare_exchange_strong(state, RendezvousState::claimed)) {
    mapped_ = {};
    return Error::not_ready;
  }
  return found ? fetch() : over(Error::failed);
}

// A pair of GPUs that was staged because this rank used no GPU, or another one, may support peer copies now.
// A pair without a decision gets one now, so that its next message from memory that cannot be shared need not
// be staged through host memory.
void RendezvousGet::reconsider() {
  if (rts_.sender == node_.rank()) return;
  if (node_.decision(rts_.sender, owner_device_, node_.rank()).path == Path::peer) return;
  int device = device_ >= 0 ? device_ : device::device_in_use();
  if (device >= 0) transport::decide_pair(node_, rts_.sender, owner_device_, device);
}

Error RendezvousGet::damaged() {
  rendezvous_.reason.store(Reason::damaged, std::memory_order_relaxed);
  return over(Error::failed);
}

bool RendezvousGet::abandon(bool sender_lives) {
  const bool copies = step_ == Step::copying || step_ == Step::passing;
  // Who has claimed the posted buffer will write to it, and say so.
  if (copies || (posted_ && sender_lives)) return false;
  if (posted_) posted_->give_up();
  if (step_ != Step::over) close(Error::failed);
  return true;
}

Error RendezvousGet::over(Error error) {
  if (error != Error::none)
    log_line(LogLevel::error, "a device message of %llu bytes from rank %d is lost: %s",
             static_cast<unsigned long long>(rts_.bytes), node_.world_rank(rts_.sender),
             stream_ ? stream_->what_failed() : node::to_string(rendezvous_.reason.load()));
  return close(error);
}

Error RendezvousGet::close(Error error) {
  bool arrived = error == Error::none && !truncated();
  if (posted_) path_ = Traffic::put;
  if (stream_) path_ = stream_->through_device() ? Traffic::device_staged : Traffic::staged;
  if (arrived) count(path_, rts_.bytes);
  rendezvous_.fetched.store(arrived && !stream_ && !posted_, std::memory_order_relaxed);
  posted_.reset();
  mapped_ = {};
  stream_.reset();
  pinned_ = device::Slot();
  between_ = HostBuffer();
  rendezvous_.state.store(RendezvousState::done, std::memory_order_release);
  step_ = Step::over;
  return result_ = error;
}

void RendezvousGet::quiesce() {
  while ((step_ == Step::copying || step_ == Step::passing) && step() == Error::not_ready) relax();
}

}  // namespace fairlead::p2p
