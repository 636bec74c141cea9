// SPDX-License-Identifier: Apache-2.0
//
// A library preloaded behind Fairlead, where it sees what reaches the host MPI. It ends the job with an error
// if a synchronous send, such as the chunks between nodes are, is left when Fairlead has ended its work.
// (For programs that complete their own synchronous sends one by one.)

#include <mpi.h>

#include <cstdio>
#include <map>
#include <mutex>

namespace {

struct Send {
  int count, dest, tag;
};
std::mutex mutex;
auto& sends = *new std::map<MPI_Request, Send>;

int look(MPI_Comm, int, void*, void*) {
  for (const auto& [request, send] : sends)
    std::fprintf(stderr, "a synchronous send of %d elements to rank %d with tag %d is left at the end\n",
                 send.count, send.dest, send.tag);
  if (!sends.empty()) PMPI_Abort(MPI_COMM_WORLD, 1);
  return MPI_SUCCESS;
}

// MPI_Finalize deletes attributes of MPI_COMM_SELF in the reverse order, so this one after Fairlead's, with
// which Fairlead ends the job.
void look_at_the_end() {
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, look, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  PMPI_Comm_free_keyval(&keyval);
}

}  // namespace

extern "C" int MPI_Issend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  const int result = PMPI_Issend(buf, count, datatype, dest, tag, comm, request);
  std::lock_guard lock(mutex);
  if (result == MPI_SUCCESS) sends[*request] = {count, dest, tag};
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

extern "C" int MPI_Init(int* argc, char*** argv) {
  const int result = PMPI_Init(argc, argv);
  if (result == MPI_SUCCESS) look_at_the_end();
  return result;
}

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int result = PMPI_Init_thread(argc, argv, required, provided);
  if (result == MPI_SUCCESS) look_at_the_end();
  return result;
}
