// SPDX-License-Identifier: Apache-2.0
// Files pass between the boxes of a node without their receiver's help, until a box is full; what no rank of
// the node has put into a box is closed (M14). Attacks by other users are in strangers_test.cpp.

#include "node/fd_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "fd_sockets.h"

namespace fairlead::node {
namespace {

struct Taken {
  FileLabel label{};
  int file = -1;
  bool ok;
  explicit Taken(const FdSocket& box) : ok(box.take(&label, &file)) {}
  ~Taken() {
    if (ok) close(file);
  }
};

TEST(FdSocket, a_file_of_a_process_that_has_ended_is_still_there) {
  Ranks ranks(2);
  FdSocket box = ranks.open(0);
  EXPECT_FALSE(Taken(box).ok);
  ASSERT_EQ(in_child([&] {
              ranks[1].pid = getpid();
              FdSocket own = ranks.open(1);
              return own.put(0, {1, 0, 1000, 5}, file_with('x')) ? 0 : 1;
            }),
            0);
  Taken taken(box);
  ASSERT_TRUE(taken.ok);
  EXPECT_EQ(taken.label.sender, 1);
  EXPECT_EQ(taken.label.base, 1000u);
  EXPECT_EQ(taken.label.id, 5u);
  EXPECT_EQ(content_of(taken.file), 'x');
  EXPECT_FALSE(Taken(box).ok);
}

TEST(FdSocket, a_full_box_refuses_and_an_emptied_one_accepts) {
  Ranks ranks(2);
  FdSocket box = ranks.open(0), other = ranks.open(1);
  int file = file_with('y');
  int accepted = 0;
  EXPECT_FALSE(box.was_full());
  while (accepted < 100000 && other.put(0, {1, 0, 0, static_cast<uint64_t>(accepted)}, file)) ++accepted;
  ASSERT_GT(accepted, 0);
  ASSERT_LT(accepted, 100000);
  EXPECT_TRUE(box.was_full()) << "the receiver is told, so that it looks";
  EXPECT_FALSE(box.was_full()) << "once";
  for (int i = 0; i < accepted; ++i) {
    Taken taken(box);
    ASSERT_TRUE(taken.ok);
    EXPECT_EQ(taken.label.id, static_cast<uint64_t>(i));
  }
  EXPECT_FALSE(Taken(box).ok);
  EXPECT_TRUE(other.put(0, {1, 0, 0, 0}, file));
  close(file);
}

TEST(FdSocket, a_rank_without_a_box_gets_nothing) {
  Ranks ranks(3);
  FdSocket box = ranks.open(0);
  int file = file_with('z');
  EXPECT_FALSE(box.put(1, {0, 0, 0, 0}, file));
  { FdSocket gone = ranks.open(1); }
  EXPECT_FALSE(box.put(1, {0, 0, 0, 0}, file));
  close(file);
}

TEST(FdSocket, M14_nothing_of_a_box_is_left_in_a_folder) {
  Ranks ranks(1);
  FdSocket box = ranks.open(0);
  const std::filesystem::path was = std::filesystem::read_symlink(path_of(ranks[0]));  // and " (deleted)"
  EXPECT_TRUE(std::filesystem::exists(was.parent_path().parent_path())) << was;
  EXPECT_FALSE(std::filesystem::exists(was.parent_path())) << was;
  struct stat status;
  ASSERT_EQ(stat(path_of(ranks[0]).c_str(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(FdSocket, M14_what_is_not_one_file_with_its_label_is_closed) {
  Ranks ranks(2);
  FdSocket box = ranks.open(0), other = ranks.open(1);
  int file = file_with('f');
  const size_t open_files = open_descriptors();
  const FileLabel label{1, 0, 0, 7};
  char longer[sizeof label + 1] = {};
  std::memcpy(longer, &label, sizeof label);
  const std::string name = path_of(ranks[0]);
  for (int files : {0, 2, 3, 253}) EXPECT_TRUE(send_files(name, &label, sizeof label, file, files)) << files;
  for (size_t bytes : {size_t{1}, sizeof label - 1, sizeof longer})
    EXPECT_TRUE(send_files(name, longer, bytes, file, 1)) << bytes;
  for (int32_t sender : {-1, 2, INT32_MAX, INT32_MIN}) {
    FileLabel of_nobody{sender, 0, 0, 0};
    EXPECT_TRUE(send_files(name, &of_nobody, sizeof of_nobody, file, 1)) << sender;
    EXPECT_FALSE(Taken(box).ok) << sender;
  }
  EXPECT_EQ(open_descriptors(), open_files);
  EXPECT_TRUE(other.put(0, label, file));
  Taken taken(box);
  EXPECT_TRUE(taken.ok && content_of(taken.file) == 'f');
  close(file);
}

TEST(FdSocket, M14_a_process_that_is_not_the_rank_it_names_is_not_believed) {
  Ranks ranks(2);
  FdSocket box = ranks.open(0), other = ranks.open(1);
  const size_t open_files = open_descriptors();
  ASSERT_EQ(in_child([&] { return other.put(0, {1, 0, 0, 0}, file_with('s')) ? 0 : 1; }), 0);
  EXPECT_FALSE(Taken(box).ok);
  EXPECT_EQ(open_descriptors(), open_files);
}

TEST(FdSocket, a_file_for_which_this_process_has_no_room_is_lost_and_the_next_is_not) {
  Ranks ranks(2);
  FdSocket box = ranks.open(0), other = ranks.open(1);
  int file = file_with('r');
  ASSERT_TRUE(other.put(0, {1, 0, 0, 1}, file));
  rlimit usual, none;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  none = usual;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(Taken(box).ok);
  EXPECT_FALSE(other.put(0, {1, 0, 0, 2}, file));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  ASSERT_TRUE(other.put(0, {1, 0, 0, 3}, file));
  Taken taken(box);
  EXPECT_TRUE(taken.ok && taken.label.id == 3);
  close(file);
}

// Programs that daemonise, or start others with care, close every descriptor they find.
TEST(FdSocket, descriptors_that_the_program_has_closed_and_uses_itself_are_left_alone) {
  Ranks ranks(1);
  EXPECT_EQ(in_child([&] {
              ranks[0].pid = getpid();
              FdSocket box = ranks.open(0);
              close_range(3, ~0U, 0);
              // Both numbers of the box name a socket of the program now, in which a message waits.
              int own[2];
              if (socketpair(AF_UNIX, SOCK_DGRAM, 0, own) != 0) return 1;
              for (int number = 5; number < 64; ++number) dup2(own[0], number);
              const FileLabel label{0, 0, 0, 0};
              if (send(own[1], &label, sizeof label, 0) != sizeof label) return 2;
              if (box.put(0, label, own[1])) return 3;
              if (Taken(box).ok) return 4;
              char content[sizeof label];
              return recv(own[0], content, sizeof content, MSG_DONTWAIT) == sizeof label ? 0 : 5;
            }),
            0);
}

TEST(FdSocket, another_socket_at_the_number_of_a_box_is_not_written_to) {
  Ranks ranks(3);
  FdSocket box = ranks.open(0), victim = ranks.open(1);
  int file = file_with('o');
  ASSERT_TRUE(box.put(1, {0, 0, 0, 0}, file));
  ASSERT_TRUE(Taken(victim).ok);
  FdSocket another = ranks.open(2);
  ASSERT_GE(dup2(ranks[2].box.number_plus_1 - 1, ranks[1].box.number_plus_1 - 1), 0);
  EXPECT_FALSE(box.put(1, {0, 0, 0, 0}, file));
  EXPECT_FALSE(Taken(another).ok);
  close(file);
}

}  // namespace
}  // namespace fairlead::node
