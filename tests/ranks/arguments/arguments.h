// SPDX-License-Identifier: Apache-2.0
//
// Tables of MPI calls with bad arguments, and what runs them. Each call is written once and made twice: by
// HOST_MPI(X) on host memory, where the host MPI itself answers, and by its own name on
// memory of every kind. Both must return errors of the same class.

#pragma once

#include <span>

#include "harness/harness.h"
#include "harness/host_mpi.h"

namespace ranks::arguments {

constexpr int room = 1000;  // in bytes, of each buffer

// What a call may be given.
struct Given {
  char *buffer = nullptr, *other = nullptr;
  MPI_Comm comm = MPI_COMM_NULL, grid = MPI_COMM_NULL;  // of this process alone
  MPI_Datatype uncommitted = MPI_DATATYPE_NULL, derived = MPI_DATATYPE_NULL;
  MPI_Win win = MPI_WIN_NULL;  // of `buffer`
  MPI_Group group = MPI_GROUP_NULL;
  // What it may write.
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Message message = MPI_MESSAGE_NULL, no_message = MPI_MESSAGE_NULL;
  MPI_Status status{}, statuses[2]{};
  int number = 0, second = 0, numbers[2] = {};
  MPI_Aint place = 0;
};

struct BadCall {
  const char* text = nullptr;
  int (*host)(Given& g) = nullptr;     // in the host MPI
  int (*subject)(Given& g) = nullptr;  // as a program calls it
};

#define BAD(Function, ...)                                                  \
  {                                                                         \
#Function "(" #__VA_ARGS__ ")",                                           \
        [](Given& g) { return (void)g, HOST_MPI(Function)(__VA_ARGS__); },       \
        [](Given& g) { return (void)g, MPI_##Function(__VA_ARGS__); } \
  }
// Calls that one host MPI, or its version 5, does not survive, or does not refuse, on host memory: it gets a
// row that is passed over. (The header of the MPI ABI is that of MPICH 5.)
#define PASSED_OVER(...) \
  {}
#define KEPT(...) __VA_ARGS__
#if defined(OPEN_MPI)
#define UNLESS_OPEN_MPI PASSED_OVER
#define UNLESS_MPICH KEPT
#else
#define UNLESS_OPEN_MPI KEPT
#define UNLESS_MPICH PASSED_OVER
#endif
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5
#define UNLESS_OPEN_MPI_5 PASSED_OVER
#else
#define UNLESS_OPEN_MPI_5 KEPT
#endif
#if defined(OPEN_MPI) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 50000000)
#define UNLESS_MPICH_5 KEPT
#else
#define UNLESS_MPICH_5 PASSED_OVER
#endif
// One that makes a request.
#define STARTS(Function, ...) BAD(Function, __VA_ARGS__, &g.request)

// What the calls of a table find: no window, or one that is in no epoch, or in one between fences.
enum class Window { none, closed, fenced };

// Compares all calls of a table in all kinds of memory, with and without active device operations.
void expect_errors_of_host(std::span<const BadCall> calls, Window window = Window::none);

}  // namespace ranks::arguments
