// SPDX-License-Identifier: Apache-2.0

#include "common/process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "common/failure.h"

namespace fairlead::tools {
namespace {

std::vector<char*> argument_vector(const Words& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

}  // namespace

Captured capture(const Words& command, Stderr errors,
                 const std::vector<std::pair<std::string, std::string>>& environment) {
  Captured captured;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return captured;
  std::vector<char*> arguments = argument_vector(command);
  pid_t child = fork();
  if (child == 0) {
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
  char block[4096];
  for (ssize_t got; child > 0 && (got = read(ends[0], block, sizeof block)) != 0;) {
    if (got > 0)
      captured.output.append(block, static_cast<size_t>(got));
    else if (errno != EINTR)
      break;
  }
  close(ends[0]);
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child)
    captured.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return captured;
}

void become(const Words& command) {
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

}  // namespace fairlead::tools
