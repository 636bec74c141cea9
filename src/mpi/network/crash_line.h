// SPDX-License-Identifier: Apache-2.0
//
// One line on stderr if the process dies of SIGSEGV, SIGBUS or SIGABRT in a certain piece of work: while a
// CrashLine::Inside exists, or by an access to certain memory. Then the signal takes the effect that it would
// have had without the CrashLine: the handler that was there before runs, or the default action, or, for a
// signal that was ignored, nothing. At most one CrashLine exists at a time.

#pragma once

#include <cstddef>
#include <string>

namespace fairlead::mpi::network {

class CrashLine {
 public:
  CrashLine(const std::string& line, const void* memory, size_t bytes);
  ~CrashLine();
  CrashLine(const CrashLine&) = delete;
  CrashLine& operator=(const CrashLine&) = delete;

  // Only one thread at a time has one.
  struct Inside {
    Inside();
    ~Inside();
  };
};

}  // namespace fairlead::mpi::network
