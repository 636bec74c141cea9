// SPDX-License-Identifier: Apache-2.0
//
// The functions of ULFM that wait for other processes. Like all calls that block in the host MPI, they first
// make the peers independent of this rank. A shrunk communicator joins its collective slot at its first
// collective (communicator_state.h).

#include "mpi/abi/host_support.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"

namespace fairlead::mpi {
namespace {

template <class Result>
int call_host(const char* name, MPI_Comm comm, Result* result) {
  void* const function = next_function(name);
  if (!function) return refuse_call(comm, name, MPI_ERR_OTHER, "this MPI has no such function");
  const ExtensionCall call(name);
  BlockingHostCall blocking_call;
  return reinterpret_cast<int (*)(MPI_Comm, Result*)>(function)(comm, result);
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPIX(Comm_agree, (MPI_Comm comm, int* flag)) {
  return call_host("MPIX_Comm_agree", comm, flag);
}

FAIRLEAD_MPIX(Comm_shrink, (MPI_Comm comm, MPI_Comm* newcomm)) {
  return call_host("MPIX_Comm_shrink", comm, newcomm);
}
