// SPDX-License-Identifier: Apache-2.0
//
// `fairlead hang`: what the ranks of this user's jobs on this node do, and who waits for whom; of jobs on
// several nodes from what each node has saved. `fairlead run` says the same of its own job.

#pragma once

#include <string>

#include "common/words.h"
#include "flight/record.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct HangArguments {
  int pid = 0;
  int calls = 0;
  bool json = false;
  std::string save;
  Words from;
};

void define_hang(CLI::App& app, HangArguments& arguments);
int hang_command(const Words& words);

// The files in which the ranks that `fairlead run` starts on this node record their calls, and what
// statistics and trace need; they outlive the ranks.
class RecordOfRun {
 public:
  // Sets the variable by which ranks find it.
  explicit RecordOfRun(int ranks);

  // What the ranks do.
  std::string now() const;
  // Does no rank die of this signal?
  bool ranks_catch(int signal) const;
  // What the ranks that did not come to the end of MPI_Finalize did last; "" if there is none.
  std::string end() const;
  // base/memory/kept_memory.h
  int parts() const { return parts_; }
  // Of an MPI function, by its number in both files.
  static const char* name_of(int function);

 private:
  const flight::Header* header_ = nullptr;
  int parts_ = -1;
};

}  // namespace fairlead::tools
