// SPDX-License-Identifier: Apache-2.0
//
// Accumulates on memory that this process reaches: target = op(target, operand), with the old value of the
// target where it is asked for. The caller holds the target's ownership meanwhile, so that each element
// changes in one step for all other accumulates. By kernels where the GPU has them, else by the host MPI on
// images in host memory.

#pragma once

#include <functional>
#include <memory>

#include "kernels/kernel_run.h"
#include "rma/transfer.h"

namespace fairlead::rma {

// An operation on elements of a predefined type.
struct Combination {
  enum class Kind { combine, replace, none } kind = Kind::combine;
  uint64_t element_bytes = 1;  // that travel
  uint64_t extent = 1;         // of an element in C memory
  // Of pairs with gaps between C elements; null without.
  std::shared_ptr<const datatype::Plan> element;
  bool has_kernel = false;
  kernels::ReduceOp kernel_op = kernels::ReduceOp::sum;
  kernels::Element kernel_element = kernels::Element::byte;
  // into[i] = op(into[i], from[i]), in C memory.
  std::function<bool(const void* from, void* into, uint64_t count)> on_host;
};

// `bytes` bytes of whole elements of `target`, from target_at on. `old` may be null. Waits for the GPU.
device::Error accumulate(const Combination& combination, const Buffer& target, uint64_t target_at,
                         const Buffer& operand, uint64_t operand_at, const Buffer* old, uint64_t old_at,
                         uint64_t bytes);

// The element at `target` becomes `wanted` if it equals `compare`; `old` is what it was. Waits for the GPU.
device::Error compare_and_swap(const Buffer& target, const Buffer& compare, const Buffer& wanted,
                               const Buffer& old);

}  // namespace fairlead::rma
