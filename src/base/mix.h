// SPDX-License-Identifier: Apache-2.0
//
// Numbers that stand for others: two lists of numbers give the same result with a probability of 2^-64. All
// processes of a job compute the same. Source of the method: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

#pragma once

#include <cstdint>

namespace fairlead {

constexpr uint64_t mixed(uint64_t first, uint64_t second) {
  uint64_t value = first * 0x9e3779b97f4a7c15 + second + 0x632be59bd9b4e019;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace fairlead
