// SPDX-License-Identifier: Apache-2.0
// M14: what ranks share is out of reach of other users of the machine, and the way there leads through
// namespaces of one user. Plays the other user by a child that gives up root; exits with 77, and a reason,
// where it is not root.

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "fd_sockets.h"
#include "node/shared_memory.h"

namespace fairlead::node {
namespace {

constexpr uid_t stranger_uid = 65534;

// As in_child(), by a user who has nothing to do with this process.
template <class Body>
int as_stranger(Body body) {
  return in_child([&] {
    if (setgroups(0, nullptr) != 0 || setgid(stranger_uid) != 0 || setuid(stranger_uid) != 0) return 99;
    return body();
  });
}

// As in_child(), where folders can be mounted and sockets named without anybody else noticing. In a chroot
// that is not possible, as / is no mount there.
constexpr int no_namespaces = 98;
template <class Body>
int in_own_namespaces(Body body) {
  return in_child([&] {
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return no_namespaces;
    return body();
  });
}

// Every name of a socket that the kernel shows to everybody.
std::vector<std::string> names_of_sockets() {
  std::vector<std::string> names;
  std::ifstream list("/proc/net/unix");
  for (std::string line; std::getline(list, line);)
    if (size_t at = line.find_first_of("/@"); at != std::string::npos) names.push_back(line.substr(at));
  return names;
}

TEST(Strangers, M14_cannot_fill_a_box) {
  Ranks ranks(2);
  FdSocket box = ranks.open(0), other = ranks.open(1);
  const size_t open_files = open_descriptors();
  EXPECT_EQ(as_stranger([&] {
              std::vector<std::string> names;
              for (const std::string& name : names_of_sockets())
                if (name.find("fairlead") != std::string::npos) names.push_back(name);
              for (int number = 0; number < 256; ++number)
                names.push_back("/proc/" + std::to_string(ranks[0].pid) + "/fd/" + std::to_string(number));
              const int file = file_with('s');
              const FileLabel label{1, 0, 0, 0};
              int sent = 0;
              for (const std::string& name : names)
                for (int i = 0; i < 20; ++i) sent += send_files(name, &label, sizeof label, file, 2);
              return sent == 0 ? 0 : 1;
            }),
            0);
  const int file = file_with('y');
  EXPECT_TRUE(other.put(0, {1, 0, 0, 0}, file));
  FileLabel label;
  int taken = -1;
  ASSERT_TRUE(box.take(&label, &taken));
  EXPECT_EQ(content_of(taken), 'y');
  close(taken);
  close(file);
  EXPECT_EQ(open_descriptors(), open_files);
}

TEST(Strangers, M14_cannot_open_what_ranks_share) {
  Ranks ranks(1);
  FdSocket box = ranks.open(0);
  SharedMemory memory = SharedMemory::create(8192);
  ASSERT_TRUE(memory);
  const std::string descriptors = "/proc/" + std::to_string(getpid()) + "/fd";
  const std::string of_memory = descriptors + "/" + std::to_string(memory.fd());
  const std::string of_box = path_of(ranks[0]);
  EXPECT_EQ(as_stranger([&] {
              for (const std::string& path : {of_memory, of_box})
                for (int way : {O_RDONLY, O_RDWR, O_PATH})
                  if (open(path.c_str(), way) >= 0) return 1;
              if (open(descriptors.c_str(), O_RDONLY) >= 0) return 3;
              return SharedMemory::adopt(open_file_of(getppid(), memory.fd()), memory.size()) ? 2 : 0;
            }),
            0);
  struct stat status;
  ASSERT_EQ(fstat(memory.fd(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_TRUE(in_child([&] {  // of the same user
    return SharedMemory::adopt(open_file_of(getppid(), memory.fd()), memory.size()) ? 1 : 0;
  }));
}

// Root may look into everybody's descriptors. A process number may be used again, and so may the one of a
// descriptor.
TEST(Strangers, M14_get_nothing_with_the_numbers_of_a_rank_that_has_ended) {
  Ranks ranks(2), stranger(1);
  FdSocket box = ranks.open(0), ended = ranks.open(1);
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  pid_t child = fork();
  if (child == 0) {
    close(done[1]);
    if (setgid(stranger_uid) != 0 || setuid(stranger_uid) != 0) _exit(99);
    stranger[0].pid = getpid();
    FdSocket own = stranger.open(0);
    dup2(stranger[0].box.number_plus_1 - 1, ranks[1].box.number_plus_1 - 1);
    char end;
    if (write(ready[1], "r", 1) != 1 || read(done[0], &end, 1) != 0) _exit(98);
    FileLabel label;
    int file = -1;
    _exit(own.take(&label, &file) ? 1 : 0);
  }
  close(done[0]);
  char begin;
  ASSERT_EQ(read(ready[0], &begin, 1), 1);
  const int secret = file_with('s');
  ASSERT_TRUE(send_files(path_of(stranger[0]), "reached", 7, secret, 0))
      << "root reaches the stranger's socket";
  ranks[1].pid = child;
  EXPECT_FALSE(box.put(1, {0, 0, 0, 0}, secret));
  close(done[1]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (int file : {ready[0], ready[1], secret}) close(file);
}

TEST(Strangers, M14_cannot_slip_memory_of_theirs_under_the_number_of_ours) {
  const size_t bytes = 8192;
  int number[2], done[2];
  ASSERT_EQ(pipe(number), 0);
  ASSERT_EQ(pipe(done), 0);
  pid_t child = fork();
  if (child == 0) {
    close(done[1]);
    if (setgid(stranger_uid) != 0 || setuid(stranger_uid) != 0) _exit(99);
    SharedMemory theirs = SharedMemory::create(bytes);
    int fd = theirs.fd();
    char end;
    if (write(number[1], &fd, sizeof fd) != sizeof fd || read(done[0], &end, 1) != 0) _exit(98);
    _exit(0);
  }
  close(done[0]);
  int fd = -1;
  ASSERT_EQ(read(number[0], &fd, sizeof fd), static_cast<ssize_t>(sizeof fd));
  ASSERT_GE(open(("/proc/" + std::to_string(child) + "/fd/" + std::to_string(fd)).c_str(), O_RDWR), 0)
      << "root may open it";
  EXPECT_FALSE(SharedMemory::adopt(open_file_of(child, fd), bytes));
  close(done[1]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int file : {number[0], number[1]}) close(file);
}

// What a program prints that a child starts, which `run` makes.
template <class Run>
std::string printed_by(Run run, const std::string& program, const char* const* variables) {
  int output[2];
  EXPECT_EQ(pipe(output), 0);
  EXPECT_EQ(run([&] {
              dup2(output[1], STDOUT_FILENO);
              dup2(output[1], STDERR_FILENO);
              execle(program.c_str(), program.c_str(), nullptr, variables);
              return 98;
            }),
            0);
  close(output[1]);
  std::string text;
  for (char c; read(output[0], &c, 1) == 1;) text += c;
  close(output[0]);
  return text;
}

// A user who starts a program with the rights of its owner must not choose the files that it writes or the
// libraries that it opens. The loader drops LD_PRELOAD there, so such a program has Fairlead only if it is
// linked with it.
TEST(Strangers, M14_cannot_set_options_of_a_program_with_more_rights) {
  char folder[] = "/tmp/fairlead-strangers-test-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder));
  ASSERT_EQ(chmod(folder, 0755), 0);
  const auto with_more_rights = [&](const char* program) {
    const std::string copy = std::string(folder) + "/" + std::filesystem::path(program).filename().string();
    std::filesystem::copy_file(program, copy);
    EXPECT_EQ(chmod(copy.c_str(), 04755), 0);
    return copy;
  };
  const char* variables[] = {"FAIRLEAD_TRACE=/etc/passwd", "FAIRLEAD_LOG=trace", "FAIRLEAD_DEVICE=sim",
                             "FAIRLEAD_TRACES=1", nullptr};
  auto as_owner = [](auto body) { return in_child(body); };
  auto as_other = [](auto body) { return as_stranger(body); };
  if (printed_by(as_other, with_more_rights("/usr/bin/id"), variables).find("euid=0") == std::string::npos) {
    std::filesystem::remove_all(folder);
    GTEST_SKIP() << "no program gets more rights here";
  }
  const std::string program = with_more_rights(PRINTER);
  std::string text = printed_by(as_owner, program, variables);
  EXPECT_NE(text.find("trace=/etc/passwd (FAIRLEAD_TRACE)"), std::string::npos) << text;
  EXPECT_NE(text.find("unknown option FAIRLEAD_TRACES"), std::string::npos) << text;
  text = printed_by(as_other, program, variables);
  EXPECT_NE(text.find("trace=off (default)"), std::string::npos) << text;
  EXPECT_EQ(text.find("/etc/passwd"), std::string::npos) << text;
  EXPECT_EQ(text.find("FAIRLEAD_TRACES"), std::string::npos) << text;
  std::filesystem::remove_all(folder);
}

TEST(Strangers, files_pass_between_mount_and_network_namespaces) {
  Ranks ranks(2);
  FdSocket box = ranks.open(0);
  const int code = in_own_namespaces([&] {
    if (mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) != 0) return 97;
    ranks[1].pid = getpid();
    FdSocket own = ranks.open(1);
    return own.put(0, {1, 0, 0, 0}, file_with('n')) ? 0 : 1;
  });
  if (code == no_namespaces) GTEST_SKIP() << "no folder can be mounted here";
  EXPECT_EQ(code, 0);
  FileLabel label;
  int file = -1;
  ASSERT_TRUE(box.take(&label, &file));
  EXPECT_EQ(content_of(file), 'n');
  close(file);
}

TEST(Strangers, a_box_is_made_where_there_is_room_for_it) {
  char folder[] = "/tmp/box-of-strangers-test-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder));
  const std::string longer = std::string(folder) + "/" + std::string(200, 'l');
  ASSERT_EQ(mkdir(longer.c_str(), 0700), 0);
  const int code = in_own_namespaces([&] {
    if (mount("tmpfs", "/dev/shm", "tmpfs", MS_RDONLY, nullptr) != 0) return 97;
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", longer.c_str(), 1);
    Ranks ranks(1);
    ranks[0].pid = getpid();
    FdSocket box = ranks.open(0);
    const std::filesystem::path was = std::filesystem::read_symlink(path_of(ranks[0]));
    if (was.parent_path().parent_path() != longer) return 1;
    return box.put(0, {0, 0, 0, 0}, file_with('l')) ? 0 : 2;
  });
  EXPECT_EQ(rmdir(longer.c_str()), 0) << "nothing is left in it";
  EXPECT_EQ(rmdir(folder), 0);
  if (code == no_namespaces) GTEST_SKIP() << "no folder can be mounted here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace fairlead::node

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (geteuid() != 0) {
    std::puts("skipped: only root can play another user");
    return 77;
  }
  // The sockets of others on this machine are none of the stranger's targets.
  if (unshare(CLONE_NEWNET) != 0) {
    std::puts("skipped: no network namespace can be made here");
    return 77;
  }
  if (fairlead::node::as_stranger([] { return 0; }) != 0) {
    std::puts("skipped: root cannot change its user here");
    return 77;
  }
  return RUN_ALL_TESTS();
}
