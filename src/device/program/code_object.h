// SPDX-License-Identifier: Apache-2.0
//
// The kernels of AMD device code, with their parameters: from the metadata that the compiler leaves in a note
// of each code object. An image is one code object (ELF), or clang's bundle of some for several GPUs.
// Nothing behind the end of an image is read, whatever its bytes are.

#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "device/program/calls.h"

namespace fairlead::device::program {

using CodeImage = std::span<const unsigned char>;

// By their mangled names. Parameters that the compiler adds are left out.
using Kernels = std::map<std::string, std::vector<Parameter>, std::less<>>;

// Empty if the image has no metadata that can be read; it has not if it is compressed. In a bundle the
// kernels of one code object stand for all: a program has one list of parameters for all GPUs.
Kernels kernels_of(CodeImage image);

// The image that begins here, as long as its own header says; empty if it is of another kind. For images that
// HIP has loaded, and which come without a length.
CodeImage image_at(const void* begin);

}  // namespace fairlead::device::program
