// SPDX-License-Identifier: Apache-2.0
//
// The place in the program that called MPI, for reports. Thread-safe; calls no MPI.

#pragma once

#include <cstdint>
#include <string>

#include "device/program/work.h"

namespace fairlead::mpi {

struct CallSite {
  uintptr_t address = 0;                     // of the call
  std::string function = "an MPI function";  // that the program called
  // "program+0x1234", whose line addr2line -e program 0x1234 names; if the name of the function is known,
  // "function+0x12 (library.so+0x1234)".
  std::string place = "an unknown place";
};

// Walks the stack, which takes some microseconds.
CallSite find_call_site();
// Of a stack that was kept: the place in the program that called Fairlead or the GPU's libraries.
CallSite call_site_of(const device::program::Frames& frames);

}  // namespace fairlead::mpi
