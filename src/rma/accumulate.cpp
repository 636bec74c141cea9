// SPDX-License-Identifier: Apache-2.0

#include "rma/accumulate.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "device/buffer_pool.h"
#include "device/pinned_buffer.h"
#include "device/small_copy.h"

namespace fairlead::rma {

using device::Error;

namespace {

constexpr uint64_t piece_bytes = uint64_t{4} << 20;

// Memory without gaps that kernels of one device reach: the buffer itself, or a copy of a piece of it.
class Reachable {
 public:
  ~Reachable() {
    if (pooled_) device::pool_free(pooled_);
  }
  // As `buffer` lies there, or null.
  static char* in_place(const Buffer& buffer, uint64_t at, int device) {
    return buffer.device == device && buffer.contiguous() ? buffer.address() + at : nullptr;
  }
  bool allocate(int device, uint64_t bytes) {
    if (bytes <= device::small_copy_bytes) slot_ = device::Slot::take();
    if (slot_.data()) return true;
    device_ = device;
    return (pooled_ = device::pool_allocate(device, bytes)) != nullptr;
  }
  char* address() const {
    return pooled_ ? static_cast<char*>(pooled_) : reinterpret_cast<char*>(slot_.data());
  }
  Buffer buffer(uint64_t bytes) const { return {datatype::View(address(), bytes), pooled_ ? device_ : -1}; }

 private:
  device::Slot slot_;
  void* pooled_ = nullptr;
  int device_ = -1;
};

Error wait(kernels::KernelRun& run) {
  return wait_for([&] { return run.poll(); });
}

// The operands of one piece, as a kernel of the target's device sees them. not_supported: it cannot.
Error by_kernel(const Combination& combination, const Buffer& target, uint64_t target_at,
                const Buffer& operand, uint64_t operand_at, const Buffer* old, uint64_t old_at,
                uint64_t bytes) {
  const int device = target.device;
  const uint64_t count = bytes / combination.element_bytes;
  Reachable target_copy, operand_copy, old_copy;
  char* into = Reachable::in_place(target, target_at, device);
  char* from = Reachable::in_place(operand, operand_at, device);
  char* before = old ? Reachable::in_place(*old, old_at, device) : nullptr;
  if (!into && !target_copy.allocate(device, bytes)) return Error::not_supported;
  if (!from && !operand_copy.allocate(device, bytes)) return Error::not_supported;
  if (old && !before && !old_copy.allocate(device, bytes)) return Error::not_supported;
  Error error = Error::none;
  if (!from) {
    error = transfer_now(operand_copy.buffer(bytes), 0, operand, operand_at, bytes);
    from = operand_copy.address();
  }
  if (!into && error == Error::none) {
    error = transfer_now(target_copy.buffer(bytes), 0, target, target_at, bytes);
    into = target_copy.address();
  }
  if (error != Error::none) return error;

  // Kernels run in the order of their launches: nobody waits between the two.
  char* result = before ? before : old_copy.address();
  kernels::KernelRun keep, combine;
  const void* value = into;
  void* place = result;
  if (old)
    error = keep.reduce(device, kernels::ReduceOp::replace, combination.kernel_element, &value, 1, &place, 1,
                        count);
  if (error != Error::none) return Error::not_supported;
  const void* both[] = {into, from};
  void* changed = into;
  error =
      combine.reduce(device, combination.kernel_op, combination.kernel_element, both, 2, &changed, 1, count);
  if (error != Error::none) {
    wait(keep);
    return Error::not_supported;
  }
  error = wait(keep);
  if (Error end = wait(combine); error == Error::none) error = end;
  if (error != Error::none) return error;
  if (changed == target_copy.address() && target_copy.address())
    error = transfer_now(target, target_at, target_copy.buffer(bytes), 0, bytes);
  if (error == Error::none && old && !before)
    error = transfer_now(*old, old_at, old_copy.buffer(bytes), 0, bytes);
  return error;
}

// Elements as the host MPI combines them, and back.
struct HostImage {
  HostImage(const Combination& combination, uint64_t bytes)
      : combination(combination),
        bytes(bytes),
        count(bytes / combination.element_bytes),
        packed(bytes),
        spread(combination.element ? count * combination.extent : 0) {}
  bool valid() const { return packed.data() && (!combination.element || spread.data()); }
  void* elements() const { return combination.element ? spread.data() : packed.data(); }
  void spread_out() {
    if (combination.element) datatype::move_on_host(view(), 0, {packed.data(), bytes}, 0, bytes);
  }
  void gather() {
    if (combination.element) datatype::move_on_host({packed.data(), bytes}, 0, view(), 0, bytes);
  }
  datatype::View view() const { return combination.element->view(spread.data(), count); }

  const Combination& combination;
  uint64_t bytes, count;
  HostBuffer packed, spread;
};

Error by_host(const Combination& combination, const Buffer& target, uint64_t target_at, const Buffer& operand,
              uint64_t operand_at, const Buffer* old, uint64_t old_at, uint64_t bytes) {
  HostImage into(combination, bytes), from(combination, bytes);
  if (!into.valid() || !from.valid()) return Error::out_of_memory;
  const Buffer into_bytes = host_buffer(into.packed.data(), bytes);
  Error error = transfer_now(into_bytes, 0, target, target_at, bytes);
  if (error == Error::none)
    error = transfer_now(host_buffer(from.packed.data(), bytes), 0, operand, operand_at, bytes);
  if (error == Error::none && old) error = transfer_now(*old, old_at, into_bytes, 0, bytes);
  if (error != Error::none) return error;
  into.spread_out();
  from.spread_out();
  if (!combination.on_host(from.elements(), into.elements(), into.count)) return Error::not_supported;
  into.gather();
  return transfer_now(target, target_at, into_bytes, 0, bytes);
}

Error accumulate_piece(const Combination& combination, const Buffer& target, uint64_t target_at,
                       const Buffer& operand, uint64_t operand_at, const Buffer* old, uint64_t old_at,
                       uint64_t bytes) {
  if (combination.kind != Combination::Kind::combine) {
    Error error = old ? transfer_now(*old, old_at, target, target_at, bytes) : Error::none;
    if (error == Error::none && combination.kind == Combination::Kind::replace)
      error = transfer_now(target, target_at, operand, operand_at, bytes);
    return error;
  }
  if (target.on_device() && combination.has_kernel && !combination.element && !target.by_blocks &&
      kernels::reductions_run_on(target.device, combination.kernel_op, combination.kernel_element) &&
      (!old ||
       kernels::reductions_run_on(target.device, kernels::ReduceOp::replace, combination.kernel_element))) {
    Error error = by_kernel(combination, target, target_at, operand, operand_at, old, old_at, bytes);
    if (error != Error::not_supported) return error;
  }
  return by_host(combination, target, target_at, operand, operand_at, old, old_at, bytes);
}

}  // namespace

Error accumulate(const Combination& combination, const Buffer& target, uint64_t target_at,
                 const Buffer& operand, uint64_t operand_at, const Buffer* old, uint64_t old_at,
                 uint64_t bytes) {
  const uint64_t piece = piece_bytes / combination.element_bytes * combination.element_bytes;
  for (uint64_t at = 0; at < bytes; at += piece) {
    Error error = accumulate_piece(combination, target, target_at + at, operand, operand_at + at, old,
                                   old_at + at, std::min(piece, bytes - at));
    if (error != Error::none) return error;
  }
  return Error::none;
}

Error compare_and_swap(const Buffer& target, const void* compare, const void* wanted, void* old) {
  const uint64_t bytes = target.bytes();
  Error error = transfer_now(host_buffer(old, bytes), 0, target, 0, bytes);
  if (error != Error::none || std::memcmp(old, compare, bytes) != 0) return error;
  return transfer_now(target, 0, host_buffer(const_cast<void*>(wanted), bytes), 0, bytes);
}

}  // namespace fairlead::rma
