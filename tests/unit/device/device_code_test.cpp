// SPDX-License-Identifier: Apache-2.0
//
// Device code as it was embedded: whole, for the targets that it is named after, of code object versions that
// old ROCm loads.

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "device_runtime_kernel.h"

namespace {

const std::map<std::string, int> versions = {
#define FAIRLEAD_GPU_TARGET(target, version, instead, gpus) {#target, version},
#include "device/cuda_hip/gpu_targets.def"
#undef FAIRLEAD_GPU_TARGET
};

constexpr int amd_gpu = 224, versions_before = 2;  // ELF numbers code object version 4 as 2
constexpr int nvidia_gpu = 190;

Elf64_Ehdr header_of(const fairlead::device::CodeImage& image) {
  Elf64_Ehdr header{};
  EXPECT_GT(image.size, sizeof header);
  if (image.size > sizeof header) std::memcpy(&header, image.bytes, sizeof header);
  EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
  return header;
}

}  // namespace

TEST(device_code, amd_images_are_whole_and_of_the_version_of_their_target) {
  int seen = 0;
  for (const auto& image : fairlead::test::kernel_images()) {
    SCOPED_TRACE(image.target);
    if (std::strncmp(image.target, "gfx", 3) != 0) continue;
    ++seen;
    ASSERT_TRUE(versions.count(image.target));
    const Elf64_Ehdr header = header_of(image);
    EXPECT_EQ(header.e_machine, amd_gpu);
    EXPECT_EQ(header.e_ident[EI_ABIVERSION], versions.at(image.target) - versions_before);
    // Sections are described at the end of the file.
    EXPECT_EQ(header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize, image.size);
  }
  if (!seen) GTEST_SKIP() << "built without device code for AMD GPUs";
}

// The flags of the header hold the compute capability, in the lowest byte or, from CUDA 13 on, in the second.
TEST(device_code, nvidia_images_are_whole_and_for_their_target) {
  int seen = 0;
  for (const auto& image : fairlead::test::kernel_images()) {
    SCOPED_TRACE(image.target);
    if (std::strncmp(image.target, "sm_", 3) != 0) continue;
    ++seen;
    const Elf64_Ehdr header = header_of(image);
    const unsigned capability = static_cast<unsigned>(std::stoi(image.target + 3));
    EXPECT_EQ(header.e_machine, nvidia_gpu);
    EXPECT_TRUE((header.e_flags & 0xff) == capability || (header.e_flags >> 8 & 0xff) == capability)
        << std::hex << header.e_flags;
    EXPECT_LE(header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize, image.size);
    EXPECT_LE(header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize, image.size);
  }
  if (!seen) GTEST_SKIP() << "built without machine code for NVIDIA GPUs";
}

TEST(device_code, ptx_ends_as_a_string_does) {
  for (const auto& image : fairlead::test::kernel_images())
    if (std::string(image.target) == "ptx") {
      EXPECT_EQ(image.bytes[image.size - 1], 0);
      EXPECT_EQ(std::strlen(reinterpret_cast<const char*>(image.bytes)) + 1, image.size);
    }
}
