// SPDX-License-Identifier: Apache-2.0
//
// The parameters of kernels, read from the code objects that this build makes for AMD GPUs, and from damaged
// ones: of those anything may be found, but nothing is read behind their end.

#include "device/program/code_object.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "code_object_kernels.h"

namespace fairlead::device::program {

bool operator==(const Parameter& one, const Parameter& other) {
  return one.offset == other.offset && one.bytes == other.bytes && one.access == other.access;
}

namespace {

std::vector<std::pair<std::string, CodeImage>> amd_images() {
  std::vector<std::pair<std::string, CodeImage>> found;
  for (const fairlead_code_image& image : test::code_images())
    if (std::string_view(image.target).starts_with("gfx"))
      found.push_back({image.target, {image.bytes, image.size}});
  return found;
}

// As clang-offload-bundler lays them out.
std::vector<unsigned char> bundle() {
  auto images = amd_images();
  images.insert(images.begin(), {"", {}});
  std::string head = "__CLANG_OFFLOAD_BUNDLE__", body;
  const auto add = [&](uint64_t number) { head.append(reinterpret_cast<const char*>(&number), 8); };
  constexpr size_t body_begins = 4096;
  add(images.size());
  for (const auto& [target, image] : images) {
    const std::string name =
        target.empty() ? "host-x86_64-unknown-linux--" : "hipv4-amdgcn-amd-amdhsa--" + target;
    add(body_begins + body.size()), add(image.size()), add(name.size());
    head += name;
    body.append(reinterpret_cast<const char*>(image.data()), image.size());
  }
  head.resize(body_begins);
  const std::string whole = head + body;
  return {whole.begin(), whole.end()};
}

void expect_our_kernels(const Kernels& kernels) {
  const std::vector<Parameter> every_kind = {{0, 1}, {8, 16}, {24, 8}, {32, 8}, {40, 2}};
  EXPECT_EQ(kernels.size(), 2u);
  ASSERT_TRUE(kernels.contains("every_kind"));
  EXPECT_EQ(kernels.at("every_kind"), every_kind);
  ASSERT_TRUE(kernels.contains("a_name_of_more_than_thirty_one_characters"));
  EXPECT_EQ(kernels.at("a_name_of_more_than_thirty_one_characters"), (std::vector<Parameter>{{0, 8}}));
}

class CodeObjects : public ::testing::Test {
 protected:
  void SetUp() override {
    if (amd_images().empty()) GTEST_SKIP() << "built without device code for AMD GPUs";
  }
};

TEST_F(CodeObjects, tell_the_parameters_of_kernels) {
  for (const auto& [target, image] : amd_images()) {
    SCOPED_TRACE(target);
    expect_our_kernels(kernels_of(image));
    const CodeImage found = image_at(image.data());
    EXPECT_EQ(found.data(), image.data());
    EXPECT_LE(found.size(), image.size());
    expect_our_kernels(kernels_of(found));
  }
}

TEST_F(CodeObjects, are_found_in_bundles) {
  const std::vector<unsigned char> whole = bundle();
  expect_our_kernels(kernels_of(whole));
  EXPECT_EQ(image_at(whole.data()).size(), whole.size());
}

TEST_F(CodeObjects, of_other_kinds_have_no_kernels) {
  std::vector<unsigned char> compressed = bundle();
  std::memcpy(compressed.data(), "CCOB", 4);
  EXPECT_TRUE(kernels_of(compressed).empty());
  EXPECT_TRUE(image_at(compressed.data()).empty());
  EXPECT_TRUE(kernels_of({}).empty());
  for (const fairlead_code_image& image : test::code_images()) {
    if (std::string_view(image.target).starts_with("gfx")) continue;
    EXPECT_TRUE(kernels_of({image.bytes, image.size}).empty()) << image.target;
  }
}

// What lies behind it cannot be read.
class Guarded {
 public:
  explicit Guarded(size_t most) : room_((most / page + 1) * page) {
    begin_ = static_cast<unsigned char*>(
        mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(begin_, MAP_FAILED);
    EXPECT_EQ(mprotect(begin_ + room_, page, PROT_NONE), 0);
  }
  ~Guarded() { munmap(begin_, room_ + page); }
  std::span<unsigned char> copy(CodeImage image) {
    return {
        static_cast<unsigned char*>(std::memcpy(begin_ + room_ - image.size(), image.data(), image.size())),
        image.size()};
  }

 private:
  const size_t page = static_cast<size_t>(getpagesize());
  const size_t room_;
  unsigned char* begin_;
};

TEST_F(CodeObjects, that_are_damaged_are_read_to_their_end_at_most) {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  const std::vector<unsigned char> bundled = bundle();
  const CodeImage images[] = {amd_images().front().second, bundled};
  Guarded guarded(bundled.size());
  for (int round = 0; round < 20000; ++round) {
    const CodeImage sound = images[random() % 2];
    const auto note = std::search(sound.begin(), sound.end(), std::begin("AMDGPU"), std::end("AMDGPU"));
    ASSERT_NE(note, sound.end());
    const size_t metadata = static_cast<size_t>(note - sound.begin());
    const size_t length = random() % 2 ? sound.size() : random() % std::min(sound.size(), metadata + 4000);
    const auto bytes = guarded.copy(sound.first(length));
    for (uint64_t damages = random() % 8; damages > 0 && length > 8; --damages) {
      // The headers, or the note and what tells its length.
      const size_t begin = random() % 2 && metadata < length ? metadata - 12 : 0;
      constexpr uint64_t edges[] = {0, 1, 0xdf, 0xdddddddddddddddd, UINT32_MAX, INT64_MAX, UINT64_MAX};
      const uint64_t value = random() % 2 ? edges[random() % std::size(edges)] : random() >> random() % 64;
      const size_t at = std::min(begin + random() % (begin ? 1500 : 300), length - 8);
      std::memcpy(&bytes[at], &value, size_t{1} << random() % 4);
    }
    for (const auto& [name, parameters] : kernels_of(bytes)) ASSERT_LE(name.size(), length);
  }
}

}  // namespace
}  // namespace fairlead::device::program
