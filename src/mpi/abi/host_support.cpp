// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/host_support.h"

#include <mpi.h>

#include "base/system/imported_symbols.h"
#include "mpi/abi/opened_mpi.h"
#include "mpi/abi/real.h"

namespace fairlead::mpi {

void* next_function(const char* name) {
  if (void* next = next_symbol(name)) return next;
  // An MPI opened by dlopen() is outside the search order of RTLD_NEXT. Where a tool stands before Fairlead,
  // Fairlead's own function may be found.
  void* found = find_anywhere(name);
  return LoadedObject(reinterpret_cast<void*>(&next_function)).contains(found) ? nullptr : found;
}

int answer_of_host(const HostQuestion& question) {
  void* function = next_function(question.function);
  if (!function) return -1;
  if (question.kind < 0) return reinterpret_cast<int (*)()>(function)() == 1;
  int answer = 0;
  const int result = reinterpret_cast<int (*)(int, int*)>(function)(question.kind, &answer);
  return result == MPI_SUCCESS && answer != 0;
}

}  // namespace fairlead::mpi
