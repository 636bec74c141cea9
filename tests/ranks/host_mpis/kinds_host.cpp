// SPDX-License-Identifier: Apache-2.0
//
// Plays an MPI that tells kinds of memory itself: a library preloaded behind Fairlead, in front of the host
// MPI. TEST_HOST_KINDS is its answer for every object; the host MPI at hand has none for MPI_INFO_ENV that
// could be changed, so it has that answer in the copies of it.

#include <mpi.h>

#include <cstdlib>

namespace {

int with_kinds(int result, MPI_Info info) {
  if (result == MPI_SUCCESS) PMPI_Info_set(info, "mpi_memory_alloc_kinds", getenv("TEST_HOST_KINDS"));
  return result;
}

}  // namespace

extern "C" int MPI_Comm_get_info(MPI_Comm comm, MPI_Info* info) {
  const int result = PMPI_Comm_get_info(comm, info);
  return with_kinds(result, *info);
}

extern "C" int MPI_Win_get_info(MPI_Win window, MPI_Info* info) {
  const int result = PMPI_Win_get_info(window, info);
  return with_kinds(result, *info);
}

extern "C" int MPI_File_get_info(MPI_File file, MPI_Info* info) {
  const int result = PMPI_File_get_info(file, info);
  return with_kinds(result, *info);
}

extern "C" int MPI_Info_dup(MPI_Info from, MPI_Info* info) {
  const int result = PMPI_Info_dup(from, info);
  return from == MPI_INFO_ENV ? with_kinds(result, *info) : result;
}
