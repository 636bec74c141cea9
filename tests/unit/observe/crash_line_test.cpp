// SPDX-License-Identifier: Apache-2.0
//
// A process that dies while a CrashLine exists dies as it would without one, and says its line where it
// should. Each case is a child process.

#include "mpi/network/crash_line.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>

using fairlead::mpi::network::CrashLine;

namespace {

struct End {
  int status;
  std::string said;
  bool operator==(const End&) const = default;
};
std::ostream& operator<<(std::ostream& to, const End& end) {
  return to << "status " << end.status << ", \"" << end.said << '"';
}

End end_of(const std::function<void()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return {-1, ""};
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], STDERR_FILENO);
    alarm(60);
    work();
    _exit(0);
  }
  close(ends[1]);
  End end{0, ""};
  char piece[256];
  for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;) end.said.append(piece, got);
  close(ends[0]);
  waitpid(child, &end.status, 0);
  return end;
}

void say(const char* words) {
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, words, std::strlen(words));
}

// What the program has set before.
void plain_handler(int) {
  say("plain;");
  _exit(3);
}
void handler_with_details(int number, siginfo_t* info, void*) {
  say(number == SIGABRT && info->si_pid == getpid() ? "details of abort;" : "details;");
  if (number == SIGSEGV && info->si_code > 0 && info->si_addr == nullptr) say("null;");
  _exit(4);
}
void handler_that_returns(int) {
  say("returns;");
}

using Set = std::function<void()>;
void set_all(void (*handler)(int)) {
  for (int number : {SIGSEGV, SIGBUS, SIGABRT}) signal(number, handler);
}
void set_details() {
  struct sigaction action = {};
  action.sa_sigaction = handler_with_details;
  action.sa_flags = SA_SIGINFO;
  for (int number : {SIGSEGV, SIGBUS, SIGABRT}) sigaction(number, &action, nullptr);
}
const Set befores[] = {[] { set_all(SIG_DFL); }, [] { set_all(SIG_IGN); }, [] { set_all(plain_handler); },
                       set_details,
                       [] {
                         set_all(handler_that_returns);
                         signal(SIGSEGV, SIG_DFL);  // it would come for ever
                       }};

void access_null() {
  *static_cast<volatile int*>(nullptr) = 1;
}
const Set deaths[] = {access_null, abort, [] { raise(SIGABRT); }, [] { kill(getpid(), SIGSEGV); }};

// Sanitizers put handlers of their own in place.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool instrumented = true;
#else
constexpr bool instrumented = false;
#endif

const std::string line = "line;";

}  // namespace

TEST(CrashLine, the_process_ends_as_without_it) {
  if (instrumented) GTEST_SKIP();
  for (const Set& before : befores)
    for (const Set& death : deaths) {
      const End without = end_of([&] {
        before();
        death();
      });
      const End with = end_of([&] {
        before();
        CrashLine crash(line, nullptr, 0);
        CrashLine::Inside inside;
        death();
      });
      EXPECT_EQ(with, (End{without.status, line + without.said})) << (&before - befores) << (&death - deaths);
    }
}

TEST(CrashLine, it_is_silent_elsewhere) {
  if (instrumented) GTEST_SKIP();
  for (const Set& death : deaths) {
    const End end = end_of([&] {
      CrashLine crash(line, nullptr, 0);
      { CrashLine::Inside inside; }
      death();
    });
    EXPECT_EQ(end.said, "");
    EXPECT_TRUE(WIFSIGNALED(end.status));
  }
}

TEST(CrashLine, an_access_to_its_memory_is_named_everywhere) {
  if (instrumented) GTEST_SKIP();
  const size_t bytes = 1 << 16;
  auto* memory =
      static_cast<volatile char*>(mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (size_t at : {size_t{0}, bytes - 1, bytes}) {
    const End end = end_of([&] {
      CrashLine crash(line, const_cast<char*>(memory), bytes);
      memory[at] = 1;
    });
    EXPECT_EQ(end.said, at < bytes ? line : "");
    EXPECT_EQ(WTERMSIG(end.status), SIGSEGV);
  }
}

TEST(CrashLine, its_end_restores_what_was_there_and_keeps_what_came_since) {
  signal(SIGBUS, plain_handler);
  std::optional<CrashLine> crash;
  crash.emplace(line, nullptr, 0);
  signal(SIGABRT, plain_handler);
  crash.reset();
  struct sigaction now;
  sigaction(SIGBUS, nullptr, &now);
  EXPECT_EQ(now.sa_handler, plain_handler);
  sigaction(SIGABRT, nullptr, &now);
  EXPECT_EQ(now.sa_handler, plain_handler);
  signal(SIGBUS, SIG_DFL);
  signal(SIGABRT, SIG_DFL);
}
