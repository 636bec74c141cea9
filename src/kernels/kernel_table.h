// SPDX-License-Identifier: Apache-2.0
//
// The kernels of this library that were found, for each device. A module is loaded at the first look for one
// of its kernels, or later if the device has work then. Thread-safe.

#pragma once

#include <string>

#include "device/runtime.h"
#include "kernels/module.h"

namespace fairlead::kernels {

using Images = ModuleImages (*)();

// `number` tells the kernels of one module apart; `name` is called when one is looked for the first time.
// not_ready: the device is busy, ask again later.
device::Error find_kernel(int device, Images images, int number, std::string (*name)(int number),
                          device::Kernel* kernel);

}  // namespace fairlead::kernels
