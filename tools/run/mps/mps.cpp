// SPDX-License-Identifier: Apache-2.0

#include "run/mps/mps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/launched_job.h"
#include "common/failure.h"
#include "common/process.h"
#include "doctor/system.h"
#include "run/local_ranks.h"

namespace fairlead::tools {
namespace {

constexpr const char *control = "nvidia-cuda-mps-control", *pipe_variable = "CUDA_MPS_PIPE_DIRECTORY",
                     *log_variable = "CUDA_MPS_LOG_DIRECTORY";

using Variables = std::vector<std::pair<std::string, std::string>>;

// Does a daemon carry this out?
bool ask(const char* request, const Variables& variables) {
  const Captured answer =
      capture({"sh", "-c", fmt::format("echo {} | {}", request, control)}, Stderr::merge, variables);
  return answer.status == 0 && answer.output.find("Cannot find") == std::string::npos;
}

// The folder of this job on this node. Each of its ranks locks the file `users` for as long as it lives.
class Folder {
 public:
  explicit Folder(const std::string& path) : path_(path) {}

  Variables variables() const { return {{pipe_variable, path_ + "/pipe"}, {log_variable, path_ + "/log"}}; }
  const std::string& path() const { return path_; }

  // The lock of this rank: a file that stays open in what it becomes. The folder may be removed meanwhile, by
  // the end of ranks that came before.
  int enter() const {
    for (;;) {
      make();
      const int file = open_file("users");
      struct stat status;
      if (file >= 0 && flock(file, LOCK_SH) == 0 && fstat(file, &status) == 0 && status.st_nlink > 0)
        return file;
      if (file < 0 && errno != ENOENT)
        throw cannot_run(fmt::format("--mps: cannot open a file in {}: {}", path_, std::strerror(errno)));
      if (file >= 0) close(file);
    }
  }

  int open_file(const char* name) const {
    return open((path_ + "/" + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  }

  std::string content(const char* name) const {
    std::ifstream file(path_ + "/" + name);
    return doctor::trimmed({std::istreambuf_iterator<char>(file), {}});
  }

 private:
  // The name can be guessed, and everybody may make folders there.
  void make() const {
    struct stat status;
    const bool made = mkdir(path_.c_str(), 0700) == 0 || errno == EEXIST;
    if (!made || lstat(path_.c_str(), &status) != 0) {
      if (errno == ENOENT) return;  // removed meanwhile
      throw cannot_run(fmt::format("--mps: cannot make {}: {}", path_, std::strerror(errno)));
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
      throw cannot_run(
          fmt::format("--mps: {} exists and is not a folder of this user alone; remove it", path_));
    for (const char* part : {"/pipe", "/log"}) mkdir((path_ + part).c_str(), 0700);
  }

  const std::string path_;
};

// A process that waits for the last rank of the node and then ends the daemon. It is no child of this
// process, which becomes the program, and no signal to the job ends it.
void end_with_last_rank(const Folder& folder) {
  const pid_t child = fork();
  if (child > 0) waitpid(child, nullptr, 0);
  if (child != 0) return;
  setsid();
  for (int number : {SIGHUP, SIGINT, SIGTERM}) signal(number, SIG_IGN);
  if (fork() != 0) _exit(0);
  for (int file = static_cast<int>(sysconf(_SC_OPEN_MAX) < 4096 ? sysconf(_SC_OPEN_MAX) : 4096); file-- > 0;)
    close(file);
  for (int file = 0; file < 3; ++file) open("/dev/null", O_RDWR);
  const int users = folder.open_file("users");
  while (flock(users, LOCK_EX) != 0 && errno == EINTR) {
  }
  // Another one has ended the daemon, and there may be a new one.
  struct stat found;
  if (users < 0 || fstat(users, &found) != 0 || found.st_nlink == 0) _exit(0);
  ask("quit", folder.variables());
  std::error_code error;
  std::filesystem::remove_all(folder.path(), error);
  _exit(0);
}

}  // namespace

void use_mps() {
  if (find_on_path(control).empty())
    throw cannot_run(fmt::format(
        "--mps: no {} on PATH; NVIDIA's driver brings it; omit --mps to let ranks that share a GPU "
        "take turns",
        control));
  if (ask("get_server_list", {})) return;
  const auto job = job_from_environment();
  const Folder folder(
      fmt::format("/tmp/fairlead-mps-{}-{}", geteuid(), name_of_job(job ? *job : Job{"none", ""})));
  const int users = folder.enter(), starting = folder.open_file("starting");
  flock(starting, LOCK_EX);
  if (!ask("get_server_list", folder.variables())) {
    end_with_last_rank(folder);  // first, since a signal may end this process at any time
    // The daemon would number the devices anew, and ranks choose by the numbers that they know.
    capture(
        {"sh", "-c",
         fmt::format("exec env -u CUDA_VISIBLE_DEVICES {} -d >\"${}/start\" 2>&1", control, log_variable)},
        Stderr::drop, folder.variables());
    const bool runs = ask("get_server_list", folder.variables());
    const std::string said = folder.content("log/start");
    if (!runs)
      throw cannot_run(fmt::format("--mps: {} -d does not start{}{}; start it yourself, or omit --mps",
                                   control, said.empty() ? "" : ": ", said));
  }
  close(starting);
  fcntl(users, F_SETFD, 0);
  for (const auto& [name, value] : folder.variables()) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace fairlead::tools
