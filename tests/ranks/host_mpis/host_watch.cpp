// SPDX-License-Identifier: Apache-2.0
//
// A library preloaded behind Fairlead, where it sees what reaches the host MPI. It ends the job with an error
// if MPI_Finalize comes while a synchronous send, such as the chunks between nodes are, is still on its way.
// (For programs that complete their own synchronous sends one by one.)

#include <mpi.h>

#include <cstdio>
#include <mutex>
#include <set>

namespace {

std::mutex mutex;
auto& sends = *new std::set<MPI_Request>;

}  // namespace

extern "C" int MPI_Issend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  const int result = PMPI_Issend(buf, count, datatype, dest, tag, comm, request);
  std::lock_guard lock(mutex);
  if (result == MPI_SUCCESS) sends.insert(*request);
  return result;
}

extern "C" int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  // The handle may be given out anew as soon as it is free.
  std::lock_guard lock(mutex);
  const MPI_Request before = *request;
  const int result = PMPI_Test(request, flag, status);
  if (*flag) sends.erase(before);
  return result;
}

extern "C" int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  {
    std::lock_guard lock(mutex);
    sends.erase(*request);
  }
  return PMPI_Wait(request, status);
}

extern "C" int MPI_Finalize() {
  if (!sends.empty()) {
    std::fprintf(stderr, "%zu synchronous sends are left at the end\n", sends.size());
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }
  return PMPI_Finalize();
}
