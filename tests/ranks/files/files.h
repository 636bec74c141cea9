// SPDX-License-Identifier: Apache-2.0
//
// Files of the rank tests, and all ways to read and write them.

#pragma once

#include <string>
#include <vector>

#include "harness/harness.h"

namespace ranks::files {

// A file that is open on all ranks of a communicator, in a directory of its own. The last close removes both.
class File {
 public:
  explicit File(MPI_Comm comm = MPI_COMM_WORLD, int mode = MPI_MODE_CREATE | MPI_MODE_RDWR);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  operator MPI_File() const { return handle_; }
  // Opens it again, in another mode.
  void open(int mode);
  void close();

  // By the operating system alone. Collective: what all ranks have written is there.
  std::vector<char> contents() const;
  // Collective: rank 0 writes them.
  void set_contents(const std::vector<char>& bytes);

 private:
  MPI_Comm comm_;
  std::string directory_, name_;
  MPI_File handle_ = MPI_FILE_NULL;
};

enum class Way {
  at,
  at_all,
  iat,
  iat_all,
  own,
  own_all,
  iown,
  iown_all,
  split_at,
  split_own,
  ordered,
  split_ordered,
  shared,
  ishared,
};
inline constexpr Way all_ways[] = {Way::at,       Way::at_all,    Way::iat,     Way::iat_all,
                                   Way::own,      Way::own_all,   Way::iown,    Way::iown_all,
                                   Way::split_at, Way::split_own, Way::ordered, Way::split_ordered,
                                   Way::shared,   Way::ishared};
const char* to_string(Way way);
// All ranks make the call.
inline bool is_collective(Way way) {
  return way != Way::at && way != Way::iat && way != Way::own && way != Way::iown && way < Way::shared;
}
// Uses the shared file pointer.
inline bool is_shared(Way way) {
  return way >= Way::ordered;
}

enum class Direction { read, write };

// One read or write, from its call to its end. Ways with the individual file pointer first set it to
// `offset`; those with the shared one do not use `offset`.
int access(Direction direction, Way way, MPI_File file, MPI_Offset offset, void* buf, int count,
           MPI_Datatype type, MPI_Status* status);

// The number of bytes in a status, by all functions that tell it; -1 if they differ.
long long bytes_of(const MPI_Status& status);

}  // namespace ranks::files
