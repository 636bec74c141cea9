// SPDX-License-Identifier: Apache-2.0

#include "p2p/pull.h"

#include "base/log.h"
#include "base/statistics.h"
#include "device/classify.h"

namespace fairlead::p2p {

using device::Error;
using node::OfferState;
using node::Path;
using node::Reason;

namespace {
constexpr int attempts_allowed = 8;
}

Pull::Pull(node::Node& node, const Descriptor& descriptor, void* to, uint64_t capacity, int device)
    : node_(node),
      descriptor_(descriptor),
      slot_(node.block(descriptor.sender).offers[descriptor.offer]),
      to_(to),
      capacity_(capacity),
      device_(device) {}

Error Pull::advance() {
  switch (step_) {
    case Step::looking: {
      OfferState state = slot_.state.load(std::memory_order_acquire);
      if (state == OfferState::offered || state == OfferState::buffered) return claim(state);
      if (state != OfferState::streaming) return Error::not_ready;
      if (truncated()) return over(Error::none);
      reconsider();
      stream_.emplace(node_, descriptor_.sender, slot_, device_, to_, descriptor_.bytes);
      step_ = Step::streaming;
      return advance();
    }
    case Step::copying: {
      Error state = copy_.poll();
      if (state == Error::none) return over(state);
      return state == Error::not_ready ? state : copy_again();
    }
    case Step::refused:  // the sender answers by streaming
      if (slot_.state.load(std::memory_order_acquire) == OfferState::refused) return insist();
      step_ = Step::looking;
      return advance();
    case Step::streaming: {
      Error state = stream_->advance();
      return state == Error::not_ready ? state : over(state);
    }
    case Step::over:
      return result_;
  }
  return Error::failed;
}

// The sender may be taking the bytes away at the same moment; only one of us gets them.
Error Pull::claim(OfferState from) {
  if (!slot_.state.compare_exchange_strong(from, OfferState::claimed)) return Error::not_ready;
  return truncated() ? over(Error::none) : fetch();
}

Error Pull::fetch() {
  const void* from = nullptr;
  int device = device_ >= 0 ? device_ : device::device_in_use();
  if (descriptor_.sender == node_.rank()) {
    from = reinterpret_cast<const void*>(slot_.source.base + slot_.source.offset);
  } else {
    if (device < 0) {
      node_.decide(descriptor_.sender, node_.rank(), Path::staged, Reason::no_context, "");
      return refuse(Reason::no_context);
    }
    Reason reason = transport::reach(node_, descriptor_.sender, device, slot_.source, &mapped_);
    if (reason != Reason::none) return refuse(reason);
    from = mapped_.address();
  }
  from_ = from;
  copying_device_ = device;
  copied_again_ = false;
  step_ = Step::copying;
  // Others that arrive in the same round join it.
  return copy_.enqueue(device, to_, from, descriptor_.bytes) == Error::none ? Error::not_ready : copy_again();
}

// The failure may be another's, started together with this one.
Error Pull::copy_again() {
  if (copied_again_) return refuse(Reason::copy_failed);
  copied_again_ = true;
  if (copy_.start(copying_device_, to_, from_, descriptor_.bytes) != Error::none)
    return refuse(Reason::copy_failed);
  return Error::not_ready;
}

// A sender that had seen this memory fetched before may have stopped polling since: it will not answer, and
// only trying again can bring the bytes.
Error Pull::insist() {
  if (!node_.block(descriptor_.sender).parked.load(std::memory_order_acquire)) return Error::not_ready;
  OfferState refused = OfferState::refused;
  if (!slot_.state.compare_exchange_strong(refused, OfferState::claimed)) return Error::not_ready;
  return ++attempts_ < attempts_allowed ? fetch() : over(Error::failed);
}

// A pair that was staged because this rank used no GPU may be served better once it does.
void Pull::reconsider() {
  node::Verdict& verdict = node_.verdict(descriptor_.sender, node_.rank());
  if (verdict.path != Path::staged || verdict.reason != Reason::no_context || device::device_in_use() < 0)
    return;
  verdict.reason = Reason::none;
  verdict.path = Path::unknown;
}

Error Pull::refuse(Reason reason) {
  log_line(LogLevel::debug, "message of rank %d is fetched through host memory: %s %s",
           node_.world_rank(descriptor_.sender), to_string(reason),
           reason == Reason::copy_failed ? device::runtime()->error_text() : "");
  mapped_ = {};
  slot_.reason.store(reason, std::memory_order_relaxed);
  slot_.state.store(OfferState::refused, std::memory_order_release);
  step_ = Step::refused;
  return Error::not_ready;
}

Error Pull::over(Error error) {
  if (error == Error::none && !truncated())
    count(stream_ ? Traffic::staged : Traffic::peer, descriptor_.bytes);
  mapped_ = {};
  stream_.reset();
  slot_.state.store(OfferState::done, std::memory_order_release);
  step_ = Step::over;
  return result_ = error;
}

void Pull::settle() {
  while (step_ == Step::copying && advance() == Error::not_ready) __builtin_ia32_pause();
}

}  // namespace fairlead::p2p
