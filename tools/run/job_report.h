// SPDX-License-Identifier: Apache-2.0
//
// What `fairlead run --json FILE` writes when a job is over: how it was started, which cores and GPU each
// rank had, and how it ended. Each rank writes a file in a folder beside FILE, because ranks may be on other
// machines.

#pragma once

#include <string>

#include "common/words.h"

namespace fairlead::tools {

struct RunArguments;

class JobReport {
 public:
  // Throws a usage Failure where FILE cannot be written, or its folder is in the way.
  explicit JobReport(const std::string& file);
  ~JobReport();
  JobReport(const JobReport&) = delete;
  JobReport& operator=(const JobReport&) = delete;

  // Where a rank writes its part: `fairlead exec --json` puts its rank in.
  std::string file_of_rank() const { return folder_ + "/{rank}.json"; }

  void write(const RunArguments& arguments, const Words& line, const std::string& abi, int exit_code) const;

 private:
  std::string file_, folder_, started_;
};

}  // namespace fairlead::tools
