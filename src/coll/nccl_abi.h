// SPDX-License-Identifier: Apache-2.0
//
// The declarations of NCCL 2 that Fairlead uses, as numbers and layouts; those of RCCL are the same. The
// build needs no header of either library.

#pragma once

#include <cstddef>

namespace fairlead::coll {

// ncclResult_t
namespace nccl_result {
inline constexpr int success = 0;
inline constexpr int system_error = 2;
inline constexpr int invalid_argument = 4;
inline constexpr int invalid_usage = 5;
inline constexpr int in_progress = 7;
}  // namespace nccl_result

// The flag of ncclCommWindowRegister for a buffer that every rank has at the same offset.
inline constexpr int nccl_window_symmetric = 1;

// ncclDataType_t
enum class NcclType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

// ncclRedOp_t
enum class NcclOp : int { sum = 0, prod = 1, max = 2, min = 3 };

// ncclUniqueId, which is passed by value.
struct NcclId {
  char bytes[128];
};

// ncclConfig_t of NCCL 2.14. Later releases recognize it by its size and version, and treat the fields that
// it lacks as undefined.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 1;
};

}  // namespace fairlead::coll
