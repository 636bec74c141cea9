// SPDX-License-Identifier: Apache-2.0

#include "rma/accumulate.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "device/buffer_pool.h"
#include "device/copies/small_copy.h"
#include "device/pinned_buffer.h"

namespace fairlead::rma {

using device::Error;

namespace {

constexpr uint64_t piece_bytes = uint64_t{4} << 20;

// A part of a buffer as contiguous memory that kernels of one device can access: the buffer itself, or a
// copy.
class Reachable {
 public:
  Reachable(const Buffer& buffer, uint64_t at, uint64_t bytes) : buffer_(buffer), at_(at), bytes_(bytes) {}
  ~Reachable() {
    if (pooled_) device::pool_free(pooled_);
  }
  Reachable(const Reachable&) = delete;
  Reachable& operator=(const Reachable&) = delete;

  // False if there is no memory for a copy.
  bool open(int device) {
    if (buffer_.device == device && buffer_.contiguous()) {
      address_ = buffer_.address() + at_;
      return true;
    }
    copied_ = true;
    if (bytes_ <= device::small_copy_bytes) slot_ = device::Slot::take();
    if (!slot_.data()) {
      device_ = device;
      pooled_ = device::pool_allocate(device, bytes_);
    }
    address_ = pooled_ ? static_cast<char*>(pooled_) : reinterpret_cast<char*>(slot_.data());
    return address_ != nullptr;
  }
  void* address() const { return address_; }
  // fetch() fills the copy from the buffer, bring_back() writes it back; without a copy both do nothing.
  Error fetch() { return copied_ ? transfer_now(copy(), 0, buffer_, at_, bytes_) : Error::none; }
  Error bring_back() { return copied_ ? transfer_now(buffer_, at_, copy(), 0, bytes_) : Error::none; }

 private:
  Buffer copy() const { return {packing::View(address_, bytes_), device_}; }

  const Buffer& buffer_;
  uint64_t at_, bytes_;
  char* address_ = nullptr;
  bool copied_ = false;
  device::Slot slot_;
  void* pooled_ = nullptr;
  int device_ = -1;  // of the copy
};

Error wait(kernels::KernelRun& run) {
  return wait_for([&] { return run.poll(); });
}

// Returns not_supported if no kernel can do it.
Error by_kernel(const Combination& combination, const Buffer& target, uint64_t target_at,
                const Buffer& operand, uint64_t operand_at, const Buffer* old, uint64_t old_at,
                uint64_t bytes) {
  const int device = target.device;
  Reachable into(target, target_at, bytes), from(operand, operand_at, bytes);
  std::optional<Reachable> before;
  if (old) before.emplace(*old, old_at, bytes);
  if (!into.open(device) || !from.open(device) || (before && !before->open(device)))
    return Error::not_supported;
  Error error = from.fetch();
  if (error == Error::none) error = into.fetch();
  if (error != Error::none) return error;

  kernels::KernelRun run;
  const void* both[] = {into.address(), from.address()};
  void* changed = into.address();
  if (run.reduce(device, combination.kernel_op, combination.kernel_element, both, 2, &changed, 1,
                 bytes / combination.element_bytes, before ? before->address() : nullptr) != Attempt::made)
    return Error::not_supported;
  error = wait(run);
  if (error == Error::none) error = into.bring_back();
  if (error == Error::none && before) error = before->bring_back();
  return error;
}

// Converts elements between packed form and the C layout that the host MPI's reductions need.
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
    if (combination.element) packing::move_on_host(view(), 0, {packed.data(), bytes}, 0, bytes);
  }
  void gather() {
    if (combination.element) packing::move_on_host({packed.data(), bytes}, 0, view(), 0, bytes);
  }
  packing::View view() const { return combination.element->view(spread.data(), count); }

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
      kernels::reductions_run_on(target.device, combination.kernel_op, combination.kernel_element)) {
    Error error = by_kernel(combination, target, target_at, operand, operand_at, old, old_at, bytes);
    if (error != Error::not_supported) return error;
  }
  return by_host(combination, target, target_at, operand, operand_at, old, old_at, bytes);
}

Error swap_by_kernel(const Buffer& target, const Buffer& compare, const Buffer& wanted, const Buffer& old) {
  const int device = target.device;
  const uint64_t bytes = target.bytes();
  Reachable element(target, 0, bytes), expected(compare, 0, bytes), next(wanted, 0, bytes),
      found(old, 0, bytes);
  for (Reachable* each : {&element, &expected, &next, &found})
    if (!each->open(device)) return Error::not_supported;
  for (Reachable* read : {&element, &expected, &next})
    if (Error error = read->fetch(); error != Error::none) return error;
  kernels::KernelRun run;
  if (run.swap(device, element.address(), expected.address(), next.address(), found.address(),
               static_cast<unsigned>(bytes)) != Attempt::made)
    return Error::not_supported;
  Error error = wait(run);
  if (error == Error::none) error = element.bring_back();
  return error == Error::none ? found.bring_back() : error;
}

Error swap_by_host(const Buffer& target, const Buffer& compare, const Buffer& wanted, const Buffer& old) {
  const uint64_t bytes = target.bytes();
  HostBuffer found(bytes), expected(bytes);
  if (!found.data() || !expected.data()) return Error::out_of_memory;
  const Buffer held = host_buffer(found.data(), bytes);
  Error error = transfer_now(held, 0, target, 0, bytes);
  if (error == Error::none) error = transfer_now(host_buffer(expected.data(), bytes), 0, compare, 0, bytes);
  if (error == Error::none && std::memcmp(found.data(), expected.data(), bytes) == 0)
    error = transfer_now(target, 0, wanted, 0, bytes);
  return error == Error::none ? transfer_now(old, 0, held, 0, bytes) : error;
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

Error compare_and_swap(const Buffer& target, const Buffer& compare, const Buffer& wanted, const Buffer& old) {
  if (target.on_device() && !target.by_blocks && kernels::swaps_run_on(target.device)) {
    Error error = swap_by_kernel(target, compare, wanted, old);
    if (error != Error::not_supported) return error;
  }
  return swap_by_host(target, compare, wanted, old);
}

}  // namespace fairlead::rma
