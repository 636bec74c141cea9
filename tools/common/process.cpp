// SPDX-License-Identifier: Apache-2.0

#include "common/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "base/said.h"
#include "common/failure.h"

namespace fairlead::tools {
namespace {

std::vector<char*> argument_vector(const Words& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

// Ends a process group when its time is over; a group of 0 has all the time there is.
class Deadline {
 public:
  Deadline(pid_t group, std::chrono::seconds limit) : group(group), end(Clock::now() + limit) {}

  // Waits until there is something to read, or the end of it; false when the group had to be killed.
  bool readable(int file) {
    while (group > 0) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd waiting{file, POLLIN, 0};
      if (left > 0 && poll(&waiting, 1, static_cast<int>(left)) != 0) break;
      if (left > 0) continue;
      kill(-group, asked ? SIGKILL : SIGTERM);
      if (asked) return false;
      asked = true;
      end = Clock::now() + std::chrono::seconds(2);
    }
    return true;
  }
  bool passed() const { return asked; }

 private:
  using Clock = std::chrono::steady_clock;
  pid_t group;
  Clock::time_point end;
  bool asked = false;
};

volatile sig_atomic_t passed_to = 0, interrupted_by = 0;

// What a terminal sends, it sends to the whole group.
void pass_on(int number, siginfo_t* info, void*) {
  if (number != SIGUSR1 && number != SIGUSR2) interrupted_by = number;
  if (info->si_code <= 0 && passed_to > 0) kill(passed_to, number);
}

int exit_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

// Writes to stdout what there is to read. After an error the rest is read all the same, until the writers,
// which are asked to, have ended.
static void relay(int file, pid_t writer) {
  char block[4096];
  for (ssize_t got; (got = read(file, block, sizeof block)) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got < 0 || std::ferror(stdout)) continue;
    const auto length = static_cast<size_t>(got);
    if (std::fwrite(block, 1, length, stdout) != length || std::fflush(stdout) != 0) kill(writer, SIGTERM);
  }
  close(file);
}

int run_through(const Words& command, const std::function<bool()>& asked, bool relays) {
  hand_over_what_was_said();
  std::vector<char*> arguments = argument_vector(command);
  constexpr int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR2};
  sigset_t all, before, awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGUSR1);
  sigaddset(&awaited, SIGCHLD);
  all = awaited;
  for (int number : passed) sigaddset(&all, number);
  sigprocmask(SIG_BLOCK, &all, &before);  // until there is somebody to pass them on to
  int ends[2] = {-1, -1};
  relays = relays && !isatty(STDOUT_FILENO) && pipe2(ends, O_CLOEXEC) == 0;
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (relays) dup2(ends[1], STDOUT_FILENO);
    execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "fairlead: cannot start %s: %s\n", arguments[0], std::strerror(errno));
    _exit(127);
  }
  if (child < 0) throw usage("cannot start " + command[0] + ": " + std::strerror(errno));
  passed_to = child;
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (int number : passed) sigaction(number, &action, nullptr);
  sigset_t meanwhile = before;
  for (int number : {SIGUSR1, SIGCHLD}) sigaddset(&meanwhile, number);
  sigprocmask(SIG_SETMASK, &meanwhile, nullptr);
  std::thread relaying;
  if (relays) {
    close(ends[1]);
    relaying = std::thread(relay, ends[0], child);
  }
  int status = 0;
  for (int number = 0; waitpid(child, &status, WNOHANG) == 0; sigwait(&awaited, &number))
    if (number == SIGUSR1 && asked()) kill(child, SIGUSR1);
  if (relaying.joinable()) relaying.join();
  sigprocmask(SIG_SETMASK, &before, nullptr);
  passed_to = 0;
  const int code = exit_status(status);
  // Launchers that are interrupted end with codes of all kinds, some of them with 0.
  return interrupted_by != 0 ? 128 + interrupted_by : code;
}

Captured capture(const Words& command, Stderr errors,
                 const std::vector<std::pair<std::string, std::string>>& environment,
                 std::chrono::seconds limit) {
  Captured captured;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return captured;
  std::vector<char*> arguments = argument_vector(command);
  pid_t child = fork();
  bool limited = limit.count() > 0;
  if (child == 0) {
    if (limited) setpgid(0, 0);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(ends[1], 1);
    if (errors == Stderr::merge) dup2(ends[1], 2);
    if (errors == Stderr::drop) dup2(null, 2);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  if (child > 0 && limited) setpgid(child, child);
  Deadline deadline(limited ? child : 0, limit);
  char block[4096];
  for (ssize_t got;
       child > 0 && deadline.readable(ends[0]) && (got = read(ends[0], block, sizeof block)) != 0;) {
    if (got > 0)
      captured.output.append(block, static_cast<size_t>(got));
    else if (errno != EINTR)
      break;
  }
  close(ends[0]);
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child) captured.status = exit_status(status);
  if (deadline.passed()) captured.status = timed_out;
  return captured;
}

void become(const Words& command) {
  hand_over_what_was_said();
  std::vector<char*> arguments = argument_vector(command);
  execvp(arguments[0], arguments.data());
  throw usage("cannot start " + command[0] + ": " + std::strerror(errno));
}

bool is_executable(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string find_on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_executable(name) ? name : std::string();
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable(candidate)) return candidate;
  }
  return {};
}

std::string why_no_program(const std::string& name) {
  struct stat status;
  if (name.empty()) return "an empty name of a program; give a path or a name on PATH of an executable file";
  if (stat(name.c_str(), &status) != 0)
    return "no program " + name + "; give a path or a name on PATH of an executable file";
  if (S_ISDIR(status.st_mode)) return name + " is a folder; give the path of a program in it";
  if (is_executable(name))
    return "no program " + name + " on PATH; for the one in this folder give ./" + name;
  return name + " is not executable; make it so (chmod +x " + shell_quote(name) +
         "), or give what runs it, as in python3 " + shell_quote(name);
}

}  // namespace fairlead::tools
