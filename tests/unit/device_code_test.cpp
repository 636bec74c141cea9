// SPDX-License-Identifier: Apache-2.0
//
// Device code as it was embedded: whole, for targets of the table, of code object versions that old ROCm
// loads.

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "device_runtime_kernel.h"

namespace {

const std::map<std::string, int> versions = {
#define FAIRLEAD_GPU_TARGET(target, version, instead, gpus) {#target, version},
#include "device/hip/gpu_targets.def"
#undef FAIRLEAD_GPU_TARGET
};

constexpr int amd_gpu = 224, versions_before = 2;  // ELF numbers code object version 4 as 2

}  // namespace

TEST(device_code, amd_images_are_whole_and_of_the_version_of_their_target) {
  int seen = 0;
  for (const auto& image : fairlead::test::kernel_images()) {
    SCOPED_TRACE(image.target);
    if (std::strncmp(image.target, "gfx", 3) != 0) continue;
    ++seen;
    ASSERT_TRUE(versions.count(image.target));
    Elf64_Ehdr header;
    ASSERT_GT(image.size, sizeof header);
    std::memcpy(&header, image.bytes, sizeof header);
    EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
    EXPECT_EQ(header.e_machine, amd_gpu);
    EXPECT_EQ(header.e_ident[EI_ABIVERSION], versions.at(image.target) - versions_before);
    // Sections are described at the end of the file.
    EXPECT_EQ(header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize, image.size);
  }
  if (!seen) GTEST_SKIP() << "built without device code for AMD GPUs";
}

TEST(device_code, ptx_ends_as_a_string_does) {
  for (const auto& image : fairlead::test::kernel_images())
    if (std::string(image.target) == "ptx") {
      EXPECT_EQ(image.bytes[image.size - 1], 0);
      EXPECT_EQ(std::strlen(reinterpret_cast<const char*>(image.bytes)) + 1, image.size);
    }
}
