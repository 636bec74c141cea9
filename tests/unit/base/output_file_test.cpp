// SPDX-License-Identifier: Apache-2.0
// Files that users name are written only where that ends, and where nobody else chose the place.

#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace fairlead {
namespace {

namespace fs = std::filesystem;

class Output : public testing::Test {
 protected:
  Output() : folder_(testing::TempDir() + "output-" + std::to_string(getpid())) {
    fs::create_directory(folder_);
    chmod(folder_.c_str(), 0755);
  }
  ~Output() override { fs::remove_all(folder_); }

  std::string file(const char* name) const { return folder_ / name; }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // Both say the same.
  static std::string refusal(const std::string& path) {
    const std::string why = why_unwritable(path);
    EXPECT_EQ(write_file(path, "text"), why);
    return why;
  }

  const fs::path folder_;
};

TEST_F(Output, replaces_what_was_there) {
  std::ofstream(file("old")) << "a longer text";
  EXPECT_EQ(refusal(file("old")), "");
  EXPECT_EQ(content(file("old")), "text");
  OutputFile pieces(file("new"));
  pieces.write("in ");
  pieces.write("pieces");
  EXPECT_EQ(pieces.close(), "");
  EXPECT_EQ(content(file("new")), "in pieces");
  EXPECT_EQ(refusal("/dev/null"), "");
}

TEST_F(Output, what_a_run_before_has_left_is_discarded) {
  std::ofstream(file("old")) << "text";
  fs::create_symlink(file("old"), file("link"));
  discard_file(file("link"));  // another folder may have been chosen by it
  EXPECT_EQ(content(file("old")), "");
  EXPECT_TRUE(fs::is_symlink(file("link")));
  discard_file(file("old"));
  EXPECT_FALSE(fs::exists(file("old")));
  for (const std::string& other : {file("none"), file("link"), folder_.string(), std::string("/dev/null")})
    discard_file(other);
  EXPECT_FALSE(fs::exists(file("none")));
  EXPECT_TRUE(fs::exists(folder_) && fs::exists("/dev/null"));
}

// A limit of the size of files plays a full disk.
TEST_F(Output, of_which_a_part_fits_is_removed) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string why = write_file(file("part"), std::string(2000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(why, "");
  EXPECT_FALSE(fs::exists(file("part")));
  EXPECT_NE(write_file("/dev/full", "text"), "");
  EXPECT_TRUE(fs::exists("/dev/full"));
}

TEST_F(Output, is_not_made_by_looking) {
  EXPECT_EQ(why_unwritable(file("new")), "");
  EXPECT_FALSE(fs::exists(file("new")));
}

TEST_F(Output, waits_for_no_reader_of_a_pipe) {
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(why_unwritable(file("pipe")), "it is not a regular file");
  EXPECT_EQ(write_file(file("pipe"), "text"), "it has no reader");
  const int reader = open(file("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(refusal(file("pipe")), "it is not a regular file") << "its reader may stop reading";
  close(reader);
}

TEST_F(Output, may_be_the_pipe_that_this_process_prints_to) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const int stdout_before = dup(STDOUT_FILENO);
  dup2(pipe_ends[1], STDOUT_FILENO);
  const std::string why = write_file("/dev/stdout", "text");
  dup2(stdout_before, STDOUT_FILENO);
  close(stdout_before);
  EXPECT_EQ(why, "");
  char read_back[4] = {};
  EXPECT_EQ(read(pipe_ends[0], read_back, 4), 4);
  EXPECT_EQ(std::string(read_back, 4), "text");
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(Output, follows_what_this_process_has_printed_to_a_file) {
  const std::string path = file("own");
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(path.c_str(), O_WRONLY | O_CREAT, 0666), STDOUT_FILENO);
    const bool printed = write(STDOUT_FILENO, "before ", 7) == 7;
    discard_file("/dev/stdout");
    discard_file(path);
    const bool written = write_file("/dev/stdout", "report ").empty();
    _exit(printed && written && write(STDOUT_FILENO, "behind", 6) == 6 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content(path), "before report behind");
}

TEST_F(Output, says_what_is_wrong) {
  EXPECT_EQ(refusal(folder_), "Is a directory");
  EXPECT_EQ(refusal(file("no/such/folder")), "No such file or directory");
  EXPECT_EQ(write_file("/dev/full", "text"), "No space left on device");
}

TEST_F(Output, follows_only_links_that_nobody_else_can_have_made) {
  fs::create_symlink(file("mine"), file("link"));
  EXPECT_EQ(refusal(file("link")), "");
  EXPECT_EQ(content(file("mine")), "text");
  fs::create_symlink(file("victim"), file("another"));
  chmod(folder_.c_str(), 01777);
  for (const char* link : {"link", "another"})
    EXPECT_EQ(refusal(file(link)), "it is a symbolic link in a folder in which others may write");
  EXPECT_FALSE(fs::exists(file("victim")));
  EXPECT_EQ(refusal(file("a file")), "");
}

// Root may write everywhere, and so into folders in which others have put links.
TEST_F(Output, follows_no_link_in_the_folder_of_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  fs::create_symlink(file("victim"), file("link"));
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(refusal(file("link")), "it is a symbolic link in a folder in which others may write");
  EXPECT_FALSE(fs::exists(file("victim")));
}

}  // namespace
}  // namespace fairlead
