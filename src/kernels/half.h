// SPDX-License-Identifier: Apache-2.0
//
// 16-bit floating point, by its bits: conversion to float, which is exact, and back, rounded to nearest even.
// Uses the GPU's own instructions where it has them.

#pragma once

#include <fairlead/kernel.h>

namespace fairlead::kernels {

FAIRLEAD_DEVICE_FUNCTION unsigned bits_of(float value) {
  return __builtin_bit_cast(unsigned, value);
}
FAIRLEAD_DEVICE_FUNCTION float float_of(unsigned bits) {
  return __builtin_bit_cast(float, bits);
}

FAIRLEAD_DEVICE_FUNCTION float bfloat16_to_float(unsigned short bits) {
  return float_of(static_cast<unsigned>(bits) << 16);
}

FAIRLEAD_DEVICE_FUNCTION unsigned short float_to_bfloat16(float value) {
  unsigned bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;  // a NaN stays one
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

#if defined(__NVPTX__)

FAIRLEAD_DEVICE_FUNCTION float float16_to_float(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
FAIRLEAD_DEVICE_FUNCTION unsigned short float_to_float16(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

#elif defined(__AMDGCN__)

FAIRLEAD_DEVICE_FUNCTION float float16_to_float(unsigned short bits) {
  return static_cast<float>(__builtin_bit_cast(_Float16, bits));
}
FAIRLEAD_DEVICE_FUNCTION unsigned short float_to_float16(float value) {
  return __builtin_bit_cast(unsigned short, static_cast<_Float16>(value));
}

#else

// 10 bits of fraction and an exponent biased by 15, where a float has 23 and 127.
inline float float16_to_float(unsigned short bits) {
  unsigned sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);  // infinite, or a NaN
  if (rest >= 0x400) return float_of(sign | ((rest << 13) + (112u << 23)));
  float subnormal = static_cast<float>(rest) * 0x1p-24f;
  return float_of(sign | bits_of(subnormal));
}

inline unsigned short float_to_float16(float value) {
  unsigned sign = bits_of(value) >> 16 & 0x8000, rest = bits_of(value) & 0x7fffffff;
  if (rest > 0x7f800000) return sign | 0x7e00;
  if (rest >= 0x477ff000) return sign | 0x7c00;  // from 65520 on, the nearest value is infinite
  if (rest >= 0x38800000) {
    rest -= 112u << 23;
    return sign | (rest + 0xfff + (rest >> 13 & 1)) >> 13;
  }
  // Subnormal: after adding 0.5, the unit in the last place is 2^-24, which is that of the result.
  return sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f));
}

#endif

}  // namespace fairlead::kernels
