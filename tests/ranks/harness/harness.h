// SPDX-License-Identifier: Apache-2.0
//
// The harness of the rank tests: MPI programs that pass device pointers to MPI calls as a user would.
// A case is RANK_TEST(theme, name, ranks) { ... } and runs on every rank of the job. A failed expectation is
// recorded and the case goes on, so that peers are not left waiting; all ranks agree on the verdict.
// A watchdog ends a case that hangs, and says which call of which rank it was in.
//
// Environment:
//   TEST_MEMORY=host        every "device" buffer is host memory: the tests must pass on a plain MPI. So it
//   is
//                           on ranks with FAIRLEAD_DEVICE=none
//   TEST_MEMORY=pool|virtual|managed  it is stream-ordered, virtual or managed device memory
//   TEST_TOLERATE_ERRORS=1  an MPI error is an acceptable answer; wrong data and hangs are not
//   TEST_THREADS=1          MPI is initialised with MPI_THREAD_MULTIPLE, which the theme `threads` needs
//   TEST_FLAGS_FILE=path    where SharedFlags lie when the ranks are on several nodes of one machine
//   TEST_TIMEOUT=seconds    patience of the watchdog with one case (default 60)
//
// Expectations, MUST and Memory may be used by several threads at once.

#pragma once

#include <mpi.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ranks {

// ---- The job ----------------------------------------------------------------------------------------

extern int rank;
extern int size;
extern bool host_oracle;      // TEST_MEMORY=host
extern bool tolerate_errors;  // TEST_TOLERATE_ERRORS=1
extern bool threads;          // TEST_THREADS=1, and the MPI has them

// What the command line asked of randomised cases. seed is the same on every rank.
struct Options {
  uint64_t seed = 0;
  long rounds = 0;      // 0: as many as fit in seconds
  double seconds = 15;  // of all randomised cases together
};
extern Options options;

// ---- Cases ------------------------------------------------------------------------------------------

struct Registration {
  Registration(const char* theme, const char* name, int ranks_needed, void (*body)());
};

#define RANK_TEST(theme, name, ranks_needed)                                                  \
  static void theme##_##name();                                                               \
  static const ranks::Registration theme##_##name##_registration(#theme, #name, ranks_needed, \
                                                                 theme##_##name);             \
  static void theme##_##name()

// The running case cannot say anything here; every rank must come to the same conclusion.
void skip(const char* why);

// For a case in which ranks died: `survivors` are left, come to the verdict, and end the launch with it.
void continue_with(MPI_Comm survivors);

// ---- Expectations -----------------------------------------------------------------------------------

// Counts a failure of the running case and prints it, with the rank.
void fail(const char* file, int line, const char* format, ...) __attribute__((format(printf, 3, 4)));
int failures();  // of the running case on this rank

// Ends the job: for mistakes after which nothing can be tested.
[[noreturn]] void give_up(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Remembers the call being made, for the watchdog.
void at(const char* file, int line, const char* call);
// A case that runs for long gets its full time again.
void rearm_watchdog();
// True for MPI_SUCCESS. Anything else is a failure, unless errors are tolerated.
bool succeeded(int result, const char* file, int line, const char* call);

int error_class(int result);
std::string error_name(int result);

#define CALL(call) (ranks::at(__FILE__, __LINE__, #call), (call))
#define MUST(call) (ranks::at(__FILE__, __LINE__, #call), ranks::succeeded((call), __FILE__, __LINE__, #call))

#define EXPECT(condition, ...)                                      \
  do {                                                              \
    if (!(condition)) ranks::fail(__FILE__, __LINE__, __VA_ARGS__); \
  } while (0)

// `call` must return an error of class `expected`.
#define EXPECT_ERROR(call, expected)                                                               \
  do {                                                                                             \
    ranks::at(__FILE__, __LINE__, #call);                                                          \
    const int expect_error_result = (call);                                                        \
    EXPECT(ranks::error_class(expect_error_result) == (expected), "%s returned %s, not %s", #call, \
           ranks::error_name(expect_error_result).c_str(), #expected);                             \
  } while (0)

// The status of a message of `bytes` bytes, by every function that tells a count.
void expect_status(const MPI_Status& status, int source, int tag, size_t bytes, const char* file, int line);
#define EXPECT_STATUS(status, source, tag, bytes) \
  ranks::expect_status(status, source, tag, bytes, __FILE__, __LINE__)

// An empty status, as null and inactive requests give.
void expect_empty(const MPI_Status& status, const char* file, int line);
#define EXPECT_EMPTY(status) ranks::expect_empty(status, __FILE__, __LINE__)

// ---- Memory -----------------------------------------------------------------------------------------

// The last two are virtual memory that the current device alone can access: of the next device, and of the
// host.
enum class Place {
  host,
  pinned,
  managed,
  device,
  other_device,
  pool,
  virtual_memory,
  far_virtual,
  host_virtual
};
const char* to_string(Place place);
inline constexpr Place all_places[] = {Place::host,           Place::pinned,       Place::managed,
                                       Place::device,         Place::other_device, Place::pool,
                                       Place::virtual_memory, Place::far_virtual,  Place::host_virtual};
inline constexpr Place host_and_device[] = {Place::host, Place::device};

// The pattern of a message: its bytes follow from a key; a shorter one is a prefix of a longer one.
void write_pattern(uint64_t key, void* to, size_t bytes);
// Distinct for distinct arguments, for use as key.
uint64_t key_of(uint64_t a, uint64_t b = 0, uint64_t c = 0);

// What nobody wrote yet holds this.
inline constexpr unsigned char guard_byte = 0xa5;

// A buffer somewhere, with guard bytes behind it (and before it, given an offset) that nobody may change.
class Memory {
 public:
  Memory() = default;
  Memory(Place place, size_t bytes, size_t offset = 0);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  char* data() const { return base_ == nullptr ? nullptr : static_cast<char*>(base_) + offset_; }
  operator void*() const { return data(); }
  size_t bytes() const { return bytes_; }
  Place place() const { return place_; }

  Memory& fill(uint64_t key);  // the pattern of `key` everywhere
  Memory& clear();             // guard bytes everywhere, as on construction
  void write(const void* from, size_t bytes, size_t offset = 0);
  void read(void* to, size_t bytes, size_t offset = 0) const;

  // Does it hold the first `bytes` bytes of the pattern, and guard bytes in all the rest?
  bool holds(uint64_t key, size_t bytes, std::string* why) const;
  // Does it hold these bytes, and guard bytes behind them? From `undefined_from` on it may hold anything.
  bool holds(const std::vector<char>& wanted, std::string* why, size_t undefined_from = SIZE_MAX) const;

 private:
  void release();
  template <typename Want>
  bool equals(const Want& want, size_t written, size_t undefined_from, std::string* why) const;

  Place place_ = Place::host;
  void* base_ = nullptr;
  size_t bytes_ = 0;
  size_t offset_ = 0;
};

#define EXPECT_HOLDS(memory, key, bytes)                                                                \
  do {                                                                                                  \
    std::string expect_holds_why;                                                                       \
    EXPECT((memory).holds(key, bytes, &expect_holds_why), "%s: %s", #memory, expect_holds_why.c_str()); \
  } while (0)

// A kernel of the current device that is in flight until end(), which any thread may call, or the end of its
// life. Memory is neither made nor freed meanwhile: these wait for the device.
class KernelInFlight {
 public:
  explicit KernelInFlight(unsigned blocks = 1, unsigned threads = 1);
  // One that gets a pointer to this memory, and writes there at its end.
  explicit KernelInFlight(const Memory& written, size_t offset = 0)
      : KernelInFlight("write_when_over", written.data() + offset, 1, 1) {}
  ~KernelInFlight();
  KernelInFlight(const KernelInFlight&) = delete;
  KernelInFlight& operator=(const KernelInFlight&) = delete;
  void end();

 private:
  KernelInFlight(const char* kernel, void* memory, unsigned blocks, unsigned threads);
  Memory over_;
};

// Raw allocation in a place, for tests of the life of allocations.
void* allocate(Place place, size_t bytes);
void deallocate(Place place, void* address);
void copy(void* to, const void* from, size_t bytes);

// ---- Ranks --------------------------------------------------------------------------------------------

// A few words that all ranks of the node see without any MPI call.
class SharedFlags {
 public:
  SharedFlags();
  ~SharedFlags();
  void raise(int flag);
  bool raised(int flag) const;
  void await(int flag) const;  // makes no MPI call

 private:
  volatile int* flags_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

// Returns when the other rank has called it, too. Use in MUST().
inline int exchange_nothing(int peer, int tag) {
  return MPI_Sendrecv(nullptr, 0, MPI_BYTE, peer, tag, nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE);
}

// The next rank is the partner of each even rank; the last of an odd number has none.
inline int partner() {
  const int other = rank ^ 1;
  return other < size ? other : MPI_PROC_NULL;
}

}  // namespace ranks
