// SPDX-License-Identifier: Apache-2.0
// Files pass between the boxes of a node without their receiver's help, until a box is full.

#include "node/file_box.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace fairlead::node {
namespace {

const Nonce nonce{{0x1234567890abcdef, static_cast<uint64_t>(getpid())}};

int file_with(char content) {
  int file = memfd_create("test", MFD_CLOEXEC);
  EXPECT_EQ(pwrite(file, &content, 1, 0), 1);
  return file;
}

char content_of(int file) {
  char content = 0;
  EXPECT_EQ(pread(file, &content, 1, 0), 1);
  return content;
}

struct Taken {
  FileLabel label{};
  pid_t sender = 0;
  int file = -1;
  bool ok;
  explicit Taken(const FileBox& box) : ok(box.take(&label, &sender, &file)) {}
  ~Taken() { close(file); }
};

TEST(FileBox, a_file_of_a_process_that_has_ended_is_still_there) {
  FileBox box(nonce, 7);
  EXPECT_FALSE(Taken(box).ok);
  pid_t child = fork();
  if (child == 0) {
    FileBox own(nonce, 8);
    _exit(own.put(7, {8, 0, 1000, 5}, file_with('x')) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  Taken taken(box);
  ASSERT_TRUE(taken.ok);
  EXPECT_EQ(taken.sender, child);
  EXPECT_EQ(taken.label.sender, 8);
  EXPECT_EQ(taken.label.base, 1000u);
  EXPECT_EQ(taken.label.id, 5u);
  EXPECT_EQ(content_of(taken.file), 'x');
  EXPECT_FALSE(Taken(box).ok);
}

TEST(FileBox, a_full_box_refuses_and_an_emptied_one_accepts) {
  FileBox box(nonce, 1), other(nonce, 2);
  int file = file_with('y');
  int accepted = 0;
  while (accepted < 100000 && other.put(1, {2, 0, 0, static_cast<uint64_t>(accepted)}, file)) ++accepted;
  ASSERT_GT(accepted, 0);
  ASSERT_LT(accepted, 100000);
  for (int i = 0; i < accepted; ++i) {
    Taken taken(box);
    ASSERT_TRUE(taken.ok);
    EXPECT_EQ(taken.label.id, static_cast<uint64_t>(i));
  }
  EXPECT_FALSE(Taken(box).ok);
  EXPECT_TRUE(other.put(1, {2, 0, 0, 0}, file));
  close(file);
}

TEST(FileBox, there_is_nobody_of_another_job_or_rank) {
  FileBox box(nonce, 1);
  int file = file_with('z');
  EXPECT_FALSE(box.put(3, {1, 0, 0, 0}, file));
  FileBox stranger({{1, 2}}, 1);
  EXPECT_FALSE(stranger.put(0, {1, 0, 0, 0}, file));
  EXPECT_TRUE(stranger.put(1, {1, 0, 0, 0}, file));
  EXPECT_FALSE(Taken(box).ok);
  close(file);
}

}  // namespace
}  // namespace fairlead::node
