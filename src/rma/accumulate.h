// SPDX-License-Identifier: Apache-2.0
//
// Accumulates on memory that this process can access: target = op(target, operand), and the old value of the
// target on request. The caller holds the target's accumulate lock meanwhile, so each element changes
// atomically with respect to all other accumulates. Kernels do the work where the GPU has them; elsewhere the
// host MPI works on images in host memory.

#pragma once

#include <functional>
#include <memory>

#include "kernels/kernel_run.h"
#include "rma/transfer.h"

namespace fairlead::rma {

// An operation on elements of a predefined type.
struct Combination {
  enum class Kind { combine, replace, none } kind = Kind::combine;
  uint64_t element_bytes = 1;  // transferred per element
  uint64_t extent = 1;         // of an element in C memory
  // The layout of a pair type with gaps, such as MPI_DOUBLE_INT; null for a type without gaps.
  std::shared_ptr<const packing::Plan> element;
  bool has_kernel = false;
  kernels::ReduceOp kernel_op = kernels::ReduceOp::sum;
  kernels::Element kernel_element = kernels::Element::byte;
  // Computes into[i] = op(into[i], from[i]) on elements in C memory.
  std::function<bool(const void* from, void* into, uint64_t count)> on_host;
};

// Accumulates `bytes` bytes, which are whole elements of `target`, from target_at on. `old` may be null.
// Waits for the GPU.
device::Error accumulate(const Combination& combination, const Buffer& target, uint64_t target_at,
                         const Buffer& operand, uint64_t operand_at, const Buffer* old, uint64_t old_at,
                         uint64_t bytes);

// Replaces the element at `target` by `wanted` if it equals `compare`; `old` receives its former value. Waits
// for the GPU.
device::Error compare_and_swap(const Buffer& target, const Buffer& compare, const Buffer& wanted,
                               const Buffer& old);

}  // namespace fairlead::rma
