// SPDX-License-Identifier: Apache-2.0
//
// Device code that NVIDIA's Sanitizer API makes the program's kernels call at each access to global memory;
// compiled as such by ptxas.

#include "device/program/accesses_patch.h"

#include "device/program/accesses_record.h"

namespace fairlead::device::program {

#ifdef __CUDA__

#define PATCH extern "C" __attribute__((device, used)) int

// SanitizerCallbackMemoryAccess. A prefetch (8) needs no bytes.
PATCH fairlead_access(void* data, unsigned long, const void* at, unsigned bytes, unsigned flags,
                      const void*) {
  constexpr unsigned read = 1, write = 2, prefetch = 8;
  if (flags & prefetch) return 0;
  return record_access(data, reinterpret_cast<unsigned long>(at), bytes, flags & read, flags & write);
}
// SanitizerCallbackMemcpyAsync
PATCH fairlead_copy_to_shared(void* data, unsigned long, const void* from, unsigned, unsigned bytes) {
  return record_access(data, reinterpret_cast<unsigned long>(from), bytes, true, false);
}
// SanitizerCallbackBulkCopyGlobalToShared: blocks of 16 bytes
PATCH fairlead_bulk_copy_to_shared(void* data, unsigned long, unsigned long from, unsigned, unsigned,
                                   unsigned blocks, unsigned) {
  return record_access(data, from, 16ul * (blocks & 0xffff), true, false);
}
// SanitizerCallbackBulkCopySharedToGlobal
PATCH fairlead_bulk_copy_from_shared(void* data, unsigned long, unsigned long to, unsigned, unsigned blocks) {
  return record_access(data, to, 16ul * blocks, false, true);
}
// SanitizerCallbackBulkReductionSharedToGlobal
PATCH fairlead_bulk_reduction_from_shared(void* data, unsigned long, unsigned long to, unsigned,
                                          unsigned blocks) {
  return record_access(data, to, 16ul * blocks, true, true);
}

#else

#ifndef FAIRLEAD_CODE_IMAGES
#define FAIRLEAD_CODE_IMAGES
#endif

const std::vector<PatchImage>& patch_images() {
  static const auto& images = *new std::vector<PatchImage>{FAIRLEAD_CODE_IMAGES};
  return images;
}

#endif

}  // namespace fairlead::device::program
