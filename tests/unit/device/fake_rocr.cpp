// SPDX-License-Identifier: Apache-2.0
//
// A ROCr of one function that calls all memory ordinary.

extern "C" int hsa_amd_pointer_info(const void*, void* info, void*, void*, void*) {
  constexpr int allocated = 1;
  static_cast<int*>(info)[1] = allocated;
  return 0;
}
