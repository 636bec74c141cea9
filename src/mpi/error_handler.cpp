// SPDX-License-Identifier: Apache-2.0
//
// MPI_Comm_create_errhandler. MPICH 5 (seen with 5.0.2) returns MPI_SUCCESS from a receive whose error a user's
// handler has seen, so the result does not tell that a message was truncated (front.h, noted()). The handler
// is told in any case: with MPICH ours is called first and passes the error on.

#include <map>
#include <mutex>

#include "mpi/front.h"

namespace fairlead::mpi {

#if defined(MPICH_VERSION)
namespace {

std::mutex mutex;
// By handle; handles that were freed stay, because communicators may still have them.
auto& handlers = *new std::map<MPI_Errhandler, MPI_Comm_errhandler_function*>;

// MPICH gives a handler nothing beyond the two arguments of the standard.
void relay(MPI_Comm* comm, int* code, ...) {
  noted(*code);
  MPI_Errhandler handler;
  if (PMPI_Comm_get_errhandler(*comm, &handler) != MPI_SUCCESS) return;
  MPI_Comm_errhandler_function* user = nullptr;
  {
    std::lock_guard lock(mutex);
    if (auto found = handlers.find(handler); found != handlers.end()) user = found->second;
  }
  PMPI_Errhandler_free(&handler);
  if (user) user(comm, code);
}

}  // namespace
#endif

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

extern "C" FAIRLEAD_EXPORT int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function* function,
                                                          MPI_Errhandler* errhandler) {
#if defined(MPICH_VERSION)
  int result = real.Comm_create_errhandler(relay, errhandler);
  if (result == MPI_SUCCESS) {
    std::lock_guard lock(mutex);
    handlers[*errhandler] = function;
  }
  return result;
#else
  return real.Comm_create_errhandler(function, errhandler);
#endif
}
