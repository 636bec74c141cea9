// SPDX-License-Identifier: Apache-2.0
//
// The kernels of this library that were found, for each device. A module is loaded at the first lookup of one
// of its kernels, or later if the device has work then. Thread-safe.

#pragma once

#include <string>

#include "device/runtime.h"
#include "kernels/module.h"
#include "kernels/reduce.h"

namespace fairlead::kernels {

using Images = ModuleImages (*)();

// `number` distinguishes the kernels of one module; `name` is called at the first lookup of a kernel.
// not_ready: the device is busy, retry later.
device::Error find_kernel(int device, Images images, int number, std::string (*name)(int number),
                          device::Kernel* kernel);

// The element whose kernel does this reduction: elements share one where the bits of the result are the same.
Element element_of_kernel(ReduceOp op, Element element);

}  // namespace fairlead::kernels
