// SPDX-License-Identifier: Apache-2.0
//
// Little address space for this process.

#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace ranks {

inline size_t address_space_in_use() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// While it lives, the process has this much address space beyond what is in use.
class LittleAddressSpace {
 public:
  explicit LittleAddressSpace(size_t more) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit lower = before_;
    lower.rlim_cur = address_space_in_use() + more;
    setrlimit(RLIMIT_AS, &lower);
  }
  ~LittleAddressSpace() { setrlimit(RLIMIT_AS, &before_); }
  LittleAddressSpace(const LittleAddressSpace&) = delete;
  LittleAddressSpace& operator=(const LittleAddressSpace&) = delete;

 private:
  rlimit before_{};
};

}  // namespace ranks
