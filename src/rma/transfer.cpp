// SPDX-License-Identifier: Apache-2.0

#include "rma/transfer.h"

#include "device/copies/small_copy.h"
#include "device/copies/submit_copies.h"

namespace fairlead::rma {

using device::Error;

namespace {

// Can a single copy or kernel make the move?
bool moves_at_once(const Buffer& to, const Buffer& from) {
  if (to.on_device() && from.on_device() && to.device != from.device)
    return !to.by_kernel && to.contiguous() && from.contiguous() &&
           device::may_copy_across(to.device, from.device, from.view.address());
  if (to.contiguous() && from.contiguous()) return true;
  if (to.by_blocks || from.by_blocks) return false;
  // Kernels cannot access ordinary host memory. Contiguous host memory passes through page-locked memory
  // instead.
  if (!to.on_device() && !to.contiguous()) return false;
  if (!from.on_device() && !from.contiguous()) return false;
  return packing::Move::possible(to.on_device() ? to.device : from.device);
}

Error bring_out(void* to, const Buffer& from, uint64_t at, uint64_t bytes) {
  if (!from.on_device()) {
    packing::move_on_host({to, bytes}, 0, from.view, at, bytes);
    return Error::none;
  }
  return from.by_blocks ? packing::copy_out_by_blocks(from.device, to, from.view, at, bytes)
                        : packing::copy_out(from.device, to, from.view, at, bytes);
}

Error bring_in(const Buffer& to, uint64_t at, void* from, uint64_t bytes) {
  if (!to.on_device()) {
    packing::move_on_host(to.view, at, {from, bytes}, 0, bytes);
    return Error::none;
  }
  return to.by_blocks ? packing::copy_in_by_blocks(to.device, to.view, at, from, bytes)
                      : packing::copy_in(to.device, to.view, at, from, bytes);
}

}  // namespace

// `start` starts the move on a device.
template <class Start>
Error Transfer::begin(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at, uint64_t bytes,
                      const Start& start) {
  to_ = to;
  from_ = from;
  to_at_ = to_at;
  from_at_ = from_at;
  bytes_ = bytes;
  moving_ = false;
  outcome_ = Error::none;
  if (bytes == 0) return outcome_;
  if (!to.on_device() && !from.on_device()) {
    packing::move_on_host(to.view, to_at, from.view, from_at, bytes);
    return outcome_;
  }
  if (!moves_at_once(to, from)) return outcome_ = fall_back();
  const bool by_kernel = to.by_kernel && from.on_device();
  moving_ = (by_kernel ? move_.start_by_kernel(to.device, to.view, to_at, from.view, from_at, bytes)
                       : start(to.on_device() ? to.device : from.device)) == Error::none;
  if (!moving_) outcome_ = fall_back();
  return outcome_;
}

Error Transfer::start(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at,
                      uint64_t bytes) {
  return begin(to, to_at, from, from_at, bytes,
               [&](int device) { return move_.start(device, to.view, to_at, from.view, from_at, bytes); });
}

Error Transfer::enqueue(const Buffer& to, const Buffer& from, uint64_t bytes) {
  return begin(to, 0, from, 0, bytes,
               [&](int device) { return move_.enqueue(device, to.view, from.view, bytes); });
}

// Copies through host memory, piece by piece.
Error Transfer::fall_back() {
  return packing::by_pieces(bytes_, packing::longest_piece, [&](uint64_t at, void* piece, uint64_t length) {
    const Error error = bring_out(piece, from_, from_at_ + at, length);
    return error == Error::none ? bring_in(to_, to_at_ + at, piece, length) : error;
  });
}

Error Transfer::finish(Error error) {
  if (error == Error::not_ready) return error;
  moving_ = false;
  // The source bytes are unchanged, so another path may still succeed.
  return outcome_ = error == Error::none ? error : fall_back();
}

Error Transfer::poll() {
  return moving_ ? finish(move_.poll()) : outcome_;
}

Error Transfer::wait() {
  // Enqueued moves start only now.
  device::start_enqueued();
  return wait_for([this] { return poll(); });
}

namespace {

// The fast paths for short copies between host and device memory. False: the caller takes another path.
bool move_few(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at, uint64_t bytes) {
  if (!to.contiguous() || !from.contiguous() || to.on_device() == from.on_device()) return false;
  char *into = to.address() + to_at, *source = from.address() + from_at;
  return to.on_device() ? device::store_small_to_device(to.device, into, source, bytes)
                        : device::copy_to_host(from.device, into, source, bytes) == Error::none;
}

}  // namespace

Error transfer_now(const Buffer& to, uint64_t to_at, const Buffer& from, uint64_t from_at, uint64_t bytes) {
  if (bytes <= device::small_copy_bytes && move_few(to, to_at, from, from_at, bytes)) return Error::none;
  Transfer transfer;
  Error error = transfer.start(to, to_at, from, from_at, bytes);
  return error == Error::none ? transfer.wait() : error;
}

}  // namespace fairlead::rma
