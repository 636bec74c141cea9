// SPDX-License-Identifier: Apache-2.0

#include "datatype/move.h"

namespace fairlead::datatype {

using device::Error;

namespace {

void* place(const View& view, uint64_t at) {
  return static_cast<char*>(view.address()) + at;
}

}  // namespace

bool Move::possible(int device) {
  return kernels::moves_run_on(device);
}

Error Move::start(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                  uint64_t bytes) {
  if (to.contiguous() && from.contiguous())
    return copy_.start(device, place(to, to_at), place(from, from_at), bytes);
  to_ = to;
  from_ = from;
  to_at_ = to_at;
  from_at_ = from_at;
  bytes_ = bytes;
  device_ = device;
  return launch();
}

Error Move::enqueue(int device, const View& to, const View& from, uint64_t bytes) {
  if (to.contiguous() && from.contiguous()) return copy_.enqueue(device, to.address(), from.address(), bytes);
  return start(device, to, 0, from, 0, bytes);
}

Error Move::launch() {
  kernels::Side to, from;
  Error error = to_.side_on(device_, &to);
  if (error == Error::none) error = from_.side_on(device_, &from);
  if (error != Error::none) return error;
  error = run_.move(device_, to, to_at_, from, from_at_, bytes_);
  // As many kernels run as there may be: one will end.
  waits_ = error == Error::out_of_memory && possible(device_);
  return waits_ ? Error::none : error;
}

Error Move::poll() {
  if (waits_) {
    Error error = launch();
    if (error != Error::none || waits_) return waits_ ? Error::not_ready : error;
  }
  Error error = run_.poll();
  return error == Error::none ? copy_.poll() : error;
}

Error Move::wait() {
  Error error;
  while ((error = waits_ ? poll() : run_.poll()) == Error::not_ready) __builtin_ia32_pause();
  return error == Error::none ? copy_.wait() : error;
}

}  // namespace fairlead::datatype
