// SPDX-License-Identifier: Apache-2.0

#include "run/local_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>

namespace fairlead::tools {
namespace {

constexpr auto timeout = std::chrono::seconds(5);

// Process numbers are used again; with the time it was started one is unique.
std::string parent_process() {
  std::ifstream file(fmt::format("/proc/{}/stat", getppid()));
  std::string line, word;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  constexpr int start_time = 20;  // behind the name, which may hold blanks
  for (int i = 0; i < start_time; ++i) fields >> word;
  return fmt::format("{}.{}", getppid(), word);
}

// The name can be guessed, and everybody may make files there: what another user made tells nothing, and gets
// nothing written into it.
bool is_ours_alone(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IRWXG | S_IRWXO)) == 0 && status.st_nlink == 1;
}

std::string file_of(const Job& job) {
  return fmt::format("/dev/shm/fairlead-{}-{}", geteuid(), name_of_job(job));
}

class SlotFile {
 public:
  explicit SlotFile(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (file_ < 0 || is_ours_alone(file_)) return;
    close(file_);
    file_ = -1;
  }
  ~SlotFile() {
    if (file_ >= 0) close(file_);
  }
  SlotFile(const SlotFile&) = delete;
  SlotFile& operator=(const SlotFile&) = delete;

  bool add(const std::string& line) { return write(file_, line.data(), line.size()) == ssize_t(line.size()); }

  std::string content() const {
    std::string text;
    char block[4096];
    for (ssize_t got; (got = pread(file_, block, sizeof block, static_cast<off_t>(text.size()))) > 0;)
      text.append(block, static_cast<size_t>(got));
    return text;
  }

  // The last of `size` that leave removes the file.
  void leave(int size) {
    flock(file_, LOCK_EX);
    add("left\n");
    std::istringstream lines(content());
    int left = 0;
    for (std::string line; std::getline(lines, line);) left += line == "left";
    if (left == size) unlink(path_.c_str());
  }

 private:
  std::string path_;
  int file_;
};

std::map<int, Cpus> read(const std::string& text) {
  std::map<int, Cpus> cpus;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int local_rank = 0;
    std::string list;
    if (words >> local_rank >> list) cpus[local_rank] = cpus_of(list);
  }
  return cpus;
}

}  // namespace

// A launcher that gives its jobs no name starts all local ranks itself.
std::string name_of_job(const Job& job) {
  std::string name = fmt::format("{}-{}", job.launcher, job.id.empty() ? parent_process() : job.id);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; },
      '_');
  return name;
}

std::vector<Cpus> cpus_of_local_ranks(const Job& job, const Cpus& mine) {
  if (job.local_size < 1 || job.local_rank < 0) return {};
  if (job.local_size == 1) return {mine};
  SlotFile file(file_of(job));
  if (!file.add(fmt::format("{} {}\n", job.local_rank, to_text(mine)))) return {};
  std::map<int, Cpus> all;
  for (auto start = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - start < timeout;) {
    all = read(file.content());
    if (all.size() == static_cast<size_t>(job.local_size)) break;
    usleep(2000);
  }
  file.leave(job.local_size);
  std::vector<Cpus> cpus;
  if (all.size() == static_cast<size_t>(job.local_size))
    for (auto& [local_rank, of_rank] : all) cpus.push_back(std::move(of_rank));
  return cpus;
}

}  // namespace fairlead::tools
