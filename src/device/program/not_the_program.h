// SPDX-License-Identifier: Apache-2.0
//
// Tells Fairlead's own calls of a driver from the program's, for those who listen to the driver (cupti.h,
// hip_tables.h).

#pragma once

#include <atomic>

namespace fairlead::device::program {

// While this exists, what the thread asks the driver for is the library's.
class NotTheProgram {
 public:
  NotTheProgram() : counts_(anybody_listens) { depth += counts_; }
  ~NotTheProgram() { depth -= counts_; }
  NotTheProgram(const NotTheProgram&) = delete;
  NotTheProgram& operator=(const NotTheProgram&) = delete;

  static bool here() { return depth > 0; }
  static constinit std::atomic<bool> anybody_listens;

 private:
  static constinit thread_local int depth;
  const bool counts_;
};

}  // namespace fairlead::device::program
