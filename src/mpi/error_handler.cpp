// SPDX-License-Identifier: Apache-2.0
//
// MPI_Comm_create_errhandler. MPICH 5 (seen with 5.0.2) returns MPI_SUCCESS from a receive whose error a user's
// handler has seen, so the result does not tell that a message was truncated (front.h, noted()). The handler
// is told in any case: with MPICH ours is called first and passes the error on.

#include <array>
#include <mutex>
#include <utility>

#include "mpi/front.h"

namespace fairlead::mpi {

#if defined(MPICH_VERSION)
namespace {

// A handler is not told which one it is, and may not ask: MPICH 5 holds a lock while it calls one. So each function of
// the user has a relay of its own.
constexpr size_t most = 64;
std::array<MPI_Comm_errhandler_function*, most> users;

// MPICH gives a handler nothing beyond the two arguments of the standard.
template <size_t number>
void relay(MPI_Comm* comm, int* code, ...) {
  noted(*code);
  users[number](comm, code);
}

template <size_t... number>
constexpr std::array<MPI_Comm_errhandler_function*, most> all_relays(std::index_sequence<number...>) {
  return {relay<number>...};
}

// Functions beyond the last relay are called by MPICH itself.
MPI_Comm_errhandler_function* relay_to(MPI_Comm_errhandler_function* user) {
  static std::mutex mutex;
  static constexpr auto relays = all_relays(std::make_index_sequence<most>());
  std::lock_guard lock(mutex);
  for (size_t i = 0; user && i < most; ++i) {
    if (!users[i]) users[i] = user;
    if (users[i] == user) return relays[i];
  }
  return user;
}

}  // namespace
#endif

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

extern "C" FAIRLEAD_EXPORT int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function* function,
                                                          MPI_Errhandler* errhandler) {
#if defined(MPICH_VERSION)
  return real.Comm_create_errhandler(relay_to(function), errhandler);
#else
  return real.Comm_create_errhandler(function, errhandler);
#endif
}
