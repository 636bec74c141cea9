// SPDX-License-Identifier: Apache-2.0

#include "base/system/code_place.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <sstream>

#include "base/system/printable.h"

namespace fairlead {
namespace {

using Clock = std::chrono::steady_clock;

std::string hexadecimal(uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

// What the program prints until then. Without environment: addr2line could load libraries from there, or
// ask servers for debug information.
std::string output_of(const std::vector<std::string>& words, Clock::time_point end) {
  int pipe[2];
  if (getauxval(AT_SECURE) || pipe2(pipe, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  char* none[] = {nullptr};
  pid_t child = 0;
  const bool runs = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), none) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(pipe[1]);
  std::string output;
  for (bool more = runs; more;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd ready{pipe[0], POLLIN, 0};
    const int found = poll(&ready, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (found < 0 && errno == EINTR) continue;
    if (found == 0) kill(child, SIGKILL);
    char text[4096];
    const ssize_t length = found > 0 ? read(pipe[0], text, sizeof text) : 0;
    if ((more = length > 0)) output.append(text, static_cast<size_t>(length));
  }
  close(pipe[0]);
  if (!runs) return "";
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return output;
}

}  // namespace

std::string CodePlace::text() const {
  return file.substr(file.rfind('/') + 1) + (file.empty() ? "" : "+") + hexadecimal(offset);
}

CodePlace place_of_code(uintptr_t address) {
  Dl_info info;
  link_map* map = nullptr;
  if (!dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP))
    return {"", address};
  std::string file = map->l_name;  // "" for the program, which may have been started by a relative path
  if (file.empty()) {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    file = length > 0 ? std::string(path, static_cast<size_t>(length)) : info.dli_fname;
  }
  return {printable(file), address - map->l_addr};
}

std::vector<std::string> texts_with_lines(const std::vector<CodePlace>& places) {
  std::vector<std::string> texts;
  std::map<std::string, std::vector<size_t>> of_files;
  for (size_t i = 0; i < places.size(); ++i) {
    texts.push_back(places[i].text());
    if (!places[i].file.empty()) of_files[places[i].file].push_back(i);
  }
  constexpr std::chrono::seconds patience{10};
  const Clock::time_point end = Clock::now() + patience;
  for (const auto& [file, indices] : of_files) {
    if (Clock::now() > end) break;
    std::vector<std::string> words = {"addr2line", "-s", "-e", file};
    // The call is before the place to which it returns.
    for (size_t i : indices) words.push_back(hexadecimal(places[i].offset - 1));
    std::istringstream lines(output_of(words, end));
    std::string line;
    for (size_t i = 0; i < indices.size() && std::getline(lines, line); ++i) {
      line = line.substr(0, line.find(' '));
      if (!line.empty() && line.front() != '?' && line.back() != '?' && !line.ends_with(":0"))
        texts[indices[i]] += " (" + line + ")";
    }
  }
  return texts;
}

}  // namespace fairlead
