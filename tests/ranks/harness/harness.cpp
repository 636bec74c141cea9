// SPDX-License-Identifier: Apache-2.0
//
// main() of the rank tests, the list of cases, expectations and the watchdog.

#include "harness/harness.h"

#include <dirent.h>
#include <execinfo.h>
#include <fairlead/device.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace ranks {

int rank = 0;
int size = 1;
bool host_oracle = false;
bool tolerate_errors = false;
bool threads = false;
Options options;

namespace {

constexpr int exit_usage = 2;
constexpr int exit_hang = 3;
constexpr int exit_skip = 77;

struct Case {
  const char* theme;
  const char* name;
  int ranks_needed;
  void (*body)();
};

std::vector<Case>& cases() {
  static std::vector<Case> list;
  return list;
}

MPI_Comm verdicts = MPI_COMM_NULL;  // the harness' own traffic
bool ranks_died = false;
std::atomic<int> case_failures = 0;
std::atomic<int> case_tolerated = 0;
const char* case_skipped = nullptr;
constexpr int printed_failures = 8;  // of one case on one rank

// Where the program is, for signal handlers: only pointers to string literals. Of several threads, the one
// that made the last call.
std::atomic<const char*> current_theme = "";
std::atomic<const char*> current_case = "start-up";
std::atomic<const char*> current_file = "";
std::atomic<const char*> current_call = "no MPI call yet";
std::atomic<int> current_line = 0;

void print_place(const char* what) {
  char line[512];
  // snprintf is not on the list of async-signal-safe functions, but with these conversions glibc's neither
  // allocates nor locks, and the process ends here anyway.
  const int length = snprintf(line, sizeof(line), "rank %d %s in %s.%s, last call at %s:%d: %s\n", rank, what,
                              current_theme.load(), current_case.load(), current_file.load(),
                              current_line.load(), current_call.load());
  if (length > 0 && write(STDERR_FILENO, line, std::min<size_t>(length, sizeof(line) - 1)) < 0)
    _exit(exit_hang);
}

void print_stack() {
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

void on_question(int) {
  char line[64];
  const int length = snprintf(line, sizeof(line), "rank %d, thread %d:\n", rank, static_cast<int>(gettid()));
  if (length > 0 && write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) return;
  print_stack();
}

// One after the other; threads that block signals, as Fairlead's own do, print nothing. opendir() allocates,
// which may hang as well: the alarm rings again then.
void print_stacks_of_others() {
  DIR* threads = opendir("/proc/self/task");
  while (const dirent* entry = threads ? readdir(threads) : nullptr) {
    const int thread = atoi(entry->d_name);
    if (thread == 0 || thread == gettid()) continue;
    syscall(SYS_tgkill, getpid(), thread, SIGUSR2);
    usleep(20000);
  }
}

void on_alarm(int) {
  static std::atomic<bool> rang_before = false;
  if (!rang_before.exchange(true)) {
    print_place("hangs");
    print_stack();
    alarm(5);
    print_stacks_of_others();
    sleep(2);  // lets the other ranks say where they are before the launcher ends them
  }
  _exit(exit_hang);
}

void on_crash(int signal_number) {
  print_place(signal_number == SIGABRT ? "aborts" : "crashes");
  print_stack();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void install_handlers() {
  void* frame;
  backtrace(&frame, 1);  // the first call loads a library, which a signal handler must not
  struct sigaction alarm_action = {};
  alarm_action.sa_handler = on_alarm;
  alarm_action.sa_flags = SA_NODEFER;
  sigaction(SIGALRM, &alarm_action, nullptr);
  signal(SIGUSR2, on_question);
  for (int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) signal(crash, on_crash);
}

unsigned watchdog_seconds() {
  const char* text = getenv("TEST_TIMEOUT");
  const int seconds = text == nullptr ? 60 : atoi(text);
  return seconds > 0 ? static_cast<unsigned>(seconds) : 60;
}

bool environment_is(const char* name, const char* value) {
  const char* text = getenv(name);
  return text != nullptr && strcmp(text, value) == 0;
}

// Ranks of a node share its devices round robin.
void choose_device() {
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  int local_rank;
  MPI_Comm_rank(node, &local_rank);
  MPI_Comm_free(&node);
  if (host_oracle) return;
  const int devices = fairlead_device_count();
  if (devices == 0) give_up("no device for provider %s; set FAIRLEAD_DEVICE=sim", fairlead_device_provider());
  if (fairlead_device_set(local_rank % devices) != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot use device %d: %s", local_rank % devices, fairlead_device_error_text());
}

// Messages that no case received would be matched by a later one, so they are failures of this one.
void expect_no_message_left() {
  MPI_Barrier(verdicts);
  int found = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
  if (found)
    fail(__FILE__, __LINE__, "a message from rank %d with tag %d was left over", status.MPI_SOURCE,
         status.MPI_TAG);
}

// The first rank that lives.
bool speaks() {
  int first = 0;
  MPI_Comm_rank(verdicts, &first);
  return first == 0;
}

// Returns whether all ranks passed.
bool run(const Case& test) {
  current_theme = test.theme;
  current_case = test.name;
  current_file = "";
  current_line = 0;
  current_call = "none";
  case_failures = 0;
  case_tolerated = 0;
  case_skipped = nullptr;
  alarm(watchdog_seconds());
  const double start = MPI_Wtime();
  test.body();
  at("harness.cpp", __LINE__, "the verdict");
  if (!tolerate_errors && !ranks_died) expect_no_message_left();
  int counts[2] = {case_failures, case_tolerated};
  MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_INT, MPI_SUM, verdicts);
  alarm(0);
  if (speaks()) {
    const char* verdict = counts[0] > 0 ? "FAIL" : case_skipped ? "skip" : "ok";
    printf("%-4s %s.%s (%.2f s)", verdict, test.theme, test.name, MPI_Wtime() - start);
    if (case_skipped) printf(": %s", case_skipped);
    if (counts[1] > 0) printf(", %d MPI errors tolerated", counts[1]);
    printf("\n");
    fflush(stdout);
  }
  return counts[0] == 0;
}

bool selected(const Case& test, const std::string& selector) {
  return selector == test.theme || selector == std::string(test.theme) + "." + test.name;
}

struct CommandLine {
  std::vector<std::string> selectors;
  bool list = false;
  bool version = false;
  bool help = false;
  std::string mistake;
};

CommandLine parse(int argc, char** argv) {
  CommandLine line;
  for (int i = 1; i < argc && line.mistake.empty(); ++i) {
    const std::string word = argv[i];
    if (word == "--list") {
      line.list = true;
    } else if (word == "--version") {
      line.version = true;
    } else if (word == "--help" || word == "-h") {
      line.help = true;
    } else if (word == "--seed" || word == "--rounds" || word == "--seconds") {
      const char* text = i + 1 < argc ? argv[++i] : "";
      char* end = nullptr;
      const unsigned long long value = strtoull(text, &end, 10);
      if (word == "--seconds") options.seconds = strtod(text, &end);
      if (*text < '0' || *text > '9' || *end != '\0')
        line.mistake = word + " needs a number, not '" + text + "'";
      else if (word == "--seed")
        options.seed = value;
      else if (word == "--rounds")
        options.rounds = static_cast<long>(value);
    } else if (word[0] == '-') {
      line.mistake =
          "unknown option " + word + "; accepted: --list --version --help --seed N --rounds N --seconds N";
    } else {
      line.selectors.push_back(word);
      if (std::none_of(cases().begin(), cases().end(),
                       [&](const Case& test) { return selected(test, word); }))
        line.mistake = "no theme or case '" + word + "'; --list shows them";
    }
  }
  return line;
}

int run_selected(const CommandLine& line) {
  int ran = 0, failed = 0, skipped = 0;
  for (const Case& test : cases()) {
    const auto chosen = [&](const std::string& selector) { return selected(test, selector); };
    if (!line.selectors.empty() && std::none_of(line.selectors.begin(), line.selectors.end(), chosen))
      continue;
    if (size < test.ranks_needed) {
      if (rank == 0)
        printf("skip %s.%s: needs %d ranks, has %d\n", test.theme, test.name, test.ranks_needed, size);
      ++skipped;
      continue;
    }
    if (!threads && strcmp(test.theme, "threads") == 0) {
      if (rank == 0) printf("skip %s.%s: needs TEST_THREADS=1\n", test.theme, test.name);
      ++skipped;
      continue;
    }
    ++ran;
    if (!run(test)) ++failed;
    if (ranks_died) break;
  }
  if (speaks()) printf("%d cases, %d failed, %d skipped\n", ran, failed, skipped);
  return failed > 0 ? 1 : ran == 0 ? exit_skip : 0;
}

void agree_on_seed() {
  if (options.seed == 0) options.seed = std::random_device()() % 1000000 + 1;
  unsigned long long seed = options.seed;
  MPI_Bcast(&seed, 1, MPI_UNSIGNED_LONG_LONG, 0, verdicts);
  options.seed = seed;
}

// MPICH (4.0.2, 5.0.2) cuts Allgatherv into pieces whose number depends on the extent of each rank's own
// receive type, so ranks whose types differ lose data or hang. Pieces of this length are never cut.
void keep_allgatherv_whole() {
  setenv("MPIR_CVAR_ALLGATHERV_PIPELINE_MSG_SIZE", "2147483647", 1);
}

// Cases compare long messages in vectors of their own, for each of which the kernel would make and clear new
// pages.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

}  // namespace

Registration::Registration(const char* theme, const char* name, int ranks_needed, void (*body)()) {
  cases().push_back({theme, name, ranks_needed, body});
}

int main(int argc, char** argv) {
  install_handlers();
  keep_allgatherv_whole();
  keep_freed_memory();
  const CommandLine line = parse(argc, argv);
  alarm(watchdog_seconds());
  host_oracle = environment_is("TEST_MEMORY", "host") || environment_is("FAIRLEAD_DEVICE", "none");
  // A GPU is in use when MPI_Init is called.
  if (environment_is("TEST_DEVICE_FIRST", "1") && !host_oracle &&
      fairlead_device_set(0) != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot use device 0: %s", fairlead_device_error_text());
  int provided = MPI_THREAD_SINGLE;
  if (environment_is("TEST_THREADS", "1"))
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  else
    MPI_Init(&argc, &argv);
  threads = provided == MPI_THREAD_MULTIPLE;
  install_handlers();  // an MPI library may have put its own in place
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int code = 0;
  if (!line.mistake.empty()) {
    if (rank == 0) fprintf(stderr, "rank-tests: %s\n", line.mistake.c_str());
    code = exit_usage;
  } else if (line.help) {
    if (rank == 0)
      printf(
          "rank-tests [THEME | THEME.CASE]... [--list | --version] [--seed N] [--rounds N | --seconds N]\n");
  } else if (line.version) {  // of the MPI
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    if (rank == 0) printf("%s\n", text);
  } else if (line.list) {
    for (const Case& test : cases())
      if (rank == 0) printf("%s.%s (%d ranks)\n", test.theme, test.name, test.ranks_needed);
  } else {
    tolerate_errors = environment_is("TEST_TOLERATE_ERRORS", "1");
    if (!environment_is("TEST_ERRORS", "fatal")) {
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // inherited by what is made of it
      MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &verdicts);
    agree_on_seed();
    choose_device();
    code = run_selected(line);
    MPI_Comm_free(&verdicts);
  }
  fflush(stdout);
  current_case = "the end";
  alarm(watchdog_seconds());
  case_failures = 0;
  CALL(MPI_Finalize());
  return code == 0 && case_failures > 0 ? 1 : code;
}

void fail(const char* file, int line, const char* format, ...) {
  if (++case_failures > printed_failures) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  fprintf(stderr, "%s:%d: rank %d, %s.%s: %s\n", file, line, rank, current_theme.load(), current_case.load(),
          text);
}

int failures() {
  return case_failures;
}

void continue_with(MPI_Comm survivors) {
  ranks_died = true;
  MPI_Comm_dup(survivors, &verdicts);
}

void skip(const char* why) {
  case_skipped = why;
}

void give_up(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  fprintf(stderr, "rank %d, %s.%s: %s\n", rank, current_theme.load(), current_case.load(), text);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

void at(const char* file, int line, const char* call) {
  current_file = file;
  current_line = line;
  current_call = call;
}

void rearm_watchdog() {
  alarm(watchdog_seconds());
}

int error_class(int result) {
  int answer = MPI_SUCCESS;
  if (result != MPI_SUCCESS) MPI_Error_class(result, &answer);
  return answer;
}

std::string error_name(int result) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  return "'" + std::string(text, length) + "'";
}

bool succeeded(int result, const char* file, int line, const char* call) {
  if (result == MPI_SUCCESS) return true;
  if (tolerate_errors)
    ++case_tolerated;
  else
    fail(file, line, "%s returned %s", call, error_name(result).c_str());
  return false;
}

void expect_status(const MPI_Status& status, int source, int tag, size_t bytes, const char* file, int line) {
  int count = -1, elements = -1, odd = -1;
  MPI_Count long_elements = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  MPI_Get_elements(&status, MPI_CHAR, &elements);
  MPI_Get_elements_x(&status, MPI_BYTE, &long_elements);
  MPI_Get_count(&status, MPI_INT32_T, &odd);
  const int ints = bytes % 4 == 0 ? static_cast<int>(bytes / 4) : MPI_UNDEFINED;
  if (status.MPI_SOURCE != source || status.MPI_TAG != tag)
    fail(file, line, "status names source %d tag %d, not %d %d", status.MPI_SOURCE, status.MPI_TAG, source,
         tag);
  if (count != static_cast<int>(bytes) || elements != static_cast<int>(bytes) ||
      long_elements != static_cast<MPI_Count>(bytes))
    fail(file, line, "status counts %d, %d and %lld bytes, not %zu", count, elements,
         static_cast<long long>(long_elements), bytes);
  if (odd != ints) fail(file, line, "status counts %d 32-bit integers, not %d", odd, ints);
}

void expect_empty(const MPI_Status& status, const char* file, int line) {
  int count = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (status.MPI_SOURCE != MPI_ANY_SOURCE || status.MPI_TAG != MPI_ANY_TAG || count != 0)
    fail(file, line, "status is not empty: source %d tag %d, %d bytes", status.MPI_SOURCE, status.MPI_TAG,
         count);
}

constexpr int flag_count = 64;

SharedFlags::SharedFlags() {
  MPI_Aint bytes = rank == 0 ? flag_count * sizeof(int) : 0;
  if (const char* path = getenv("TEST_FLAGS_FILE")) {
    const int file = open(path, O_RDWR);
    void* mapped = MAP_FAILED;
    if (file >= 0 && ftruncate(file, flag_count * sizeof(int)) == 0)
      mapped = mmap(nullptr, flag_count * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) give_up("no flags in %s", path);
    close(file);
    flags_ = static_cast<volatile int*>(mapped);
    if (rank == 0) std::fill(flags_, flags_ + flag_count, 0);
    MPI_Barrier(verdicts);
    return;
  }
  void* mine = nullptr;
  if (MPI_Win_allocate_shared(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window_) !=
      MPI_SUCCESS)
    give_up("this case needs all ranks on one node");
  int unit;
  void* address = nullptr;
  MPI_Win_shared_query(window_, 0, &bytes, &unit, &address);
  flags_ = static_cast<volatile int*>(address);
  if (rank == 0) std::fill(flags_, flags_ + flag_count, 0);
  MPI_Barrier(verdicts);
}

SharedFlags::~SharedFlags() {
  if (window_ != MPI_WIN_NULL)
    MPI_Win_free(&window_);
  else
    munmap(const_cast<int*>(flags_), flag_count * sizeof(int));
}

void SharedFlags::raise(int flag) {
  __atomic_store_n(&flags_[flag], 1, __ATOMIC_SEQ_CST);
}

bool SharedFlags::raised(int flag) const {
  return __atomic_load_n(&flags_[flag], __ATOMIC_SEQ_CST) != 0;
}

void SharedFlags::await(int flag) const {
  while (!raised(flag)) usleep(100);
}

}  // namespace ranks

int main(int argc, char** argv) {
  return ranks::main(argc, argv);
}
