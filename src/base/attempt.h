// SPDX-License-Identifier: Apache-2.0
//
// What became of an attempt to take or start what there may be too little of, or what must not be made at
// this moment. `later` is no failure: the caller tries again, or does without.

#pragma once

#include <cstdint>

namespace fairlead {

enum class [[nodiscard]] Attempt : uint8_t{made, later, never};

}  // namespace fairlead
