// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the runtime contract share: short ways to ask the provider for things that must succeed.

#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "device/runtime.h"

namespace fairlead::device {

// Names the error where a test compares errors.
inline void PrintTo(Error error, std::ostream* out) {
  *out << to_string(error);
}

using Bytes = std::vector<unsigned char>;

inline Runtime& gpu() {
  return *whole_runtime();
}

inline int devices() {
  int count = 0;
  gpu().device_count(&count);
  return count;
}

inline std::string words(Error error) {
  return std::string(to_string(error)) + ": " + gpu().error_text();
}

inline testing::AssertionResult succeeded(const char* call, Error error) {
  if (error == Error::none) return testing::AssertionSuccess();
  return testing::AssertionFailure() << call << ": " << words(error) << " ";
}
#define EXPECT_SUCCESS(call) EXPECT_PRED_FORMAT1(succeeded, call)
#define ASSERT_SUCCESS(call) ASSERT_PRED_FORMAT1(succeeded, call)

inline Bytes pattern(size_t bytes, unsigned seed) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<unsigned char>(seed + 31 * i + (i >> 8));
  return made;
}

// Memory of one kind, freed at the end of the scope.
class Memory {
 public:
  Memory(MemoryKind kind, size_t bytes, int device = 0) : kind_(kind) {
    switch (kind) {
      case MemoryKind::host:
        address_ = std::malloc(bytes);
        break;
      case MemoryKind::pinned:
        EXPECT_SUCCESS(gpu().allocate_pinned(bytes, &address_));
        break;
      case MemoryKind::device:
        EXPECT_SUCCESS(gpu().allocate(device, bytes, &address_));
        break;
      case MemoryKind::managed:
        EXPECT_SUCCESS(gpu().allocate_managed(device, bytes, &address_));
        break;
    }
  }
  ~Memory() {
    if (kind_ == MemoryKind::host) {
      std::free(address_);
    } else if (kind_ == MemoryKind::pinned) {
      EXPECT_SUCCESS(gpu().free_pinned(address_));
    } else {
      EXPECT_SUCCESS(gpu().free(address_));
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  unsigned char* at(size_t offset = 0) const { return static_cast<unsigned char*>(address_) + offset; }

 private:
  MemoryKind kind_;
  void* address_ = nullptr;
};

class StreamScope {
 public:
  explicit StreamScope(int device = 0, StreamKind kind = StreamKind::library) {
    EXPECT_SUCCESS(gpu().create_stream(device, &stream_, kind));
  }
  ~StreamScope() { EXPECT_SUCCESS(gpu().destroy_stream(stream_)); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
  operator Stream() const { return stream_; }

  void copy(void* to, const void* from, size_t bytes) const {
    EXPECT_SUCCESS(gpu().copy(to, from, bytes, stream_));
    EXPECT_SUCCESS(gpu().synchronize_stream(stream_));
  }

 private:
  Stream stream_ = nullptr;
};

inline Bytes bytes_of(const void* address, size_t bytes, const StreamScope& stream) {
  Bytes read(bytes);
  stream.copy(read.data(), address, bytes);
  return read;
}

inline constexpr MemoryKind every_kind[] = {MemoryKind::host, MemoryKind::pinned, MemoryKind::device,
                                            MemoryKind::managed};

// Runs this program again as `mode` with `argument`; its exit status.
inline int run_again(const char* mode, const std::string& argument = "") {
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "again", mode, argument.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// For main(): returns an exit status if there is nothing to test with, else -1.
inline int without_devices() {
  const char* wanted = std::getenv("FAIRLEAD_DEVICE");
  if (whole_runtime() && devices() > 0) return -1;
  std::fprintf(stderr, "skipped: no device of provider %s\n", wanted ? wanted : "auto");
  return 77;
}

inline int run_all_tests(int argc, char** argv) {
  if (argc > 1) {
    std::fprintf(stderr, "unknown argument %s; only --gtest_... options are accepted\n", argv[1]);
    return 2;
  }
  std::printf("provider %s, %d device%s, version %d\n", gpu().name(), devices(), devices() == 1 ? "" : "s",
              gpu().version());
  return RUN_ALL_TESTS();
}

}  // namespace fairlead::device
