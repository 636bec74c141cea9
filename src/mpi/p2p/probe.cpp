// SPDX-License-Identifier: Apache-2.0
//
// Probe, Iprobe, Mprobe, Improbe: they report the user's message, never a descriptor (M2).

#include "mpi/core/interception.h"
#include "mpi/core/operation.h"
#include "mpi/core/record.h"
#include "mpi/core/request.h"
#include "mpi/p2p/probed_messages.h"

namespace fairlead::mpi {
namespace {

int iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  MPI_Status local;
  if (status == MPI_STATUS_IGNORE) status = &local;
  if (engine().busy()) {
    engine().progress();
    if (peek_stashed(source, tag, comm, status)) {
      *flag = 1;
      return MPI_SUCCESS;
    }
  }
  int result = real.Iprobe(source, tag, comm, flag, status);
  if (result != MPI_SUCCESS || !*flag || status->MPI_SOURCE == MPI_PROC_NULL) return result;
  if (stash_if_unclear(*status, comm)) *flag = peek_stashed(source, tag, comm, status);
  return MPI_SUCCESS;
}

int improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  MPI_Status local;
  if (status == MPI_STATUS_IGNORE) status = &local;
  std::unique_ptr<Stashed> stashed;
  if (engine().busy()) engine().progress();
  LookThenAsk together;
  if (engine().busy()) stashed = take_stashed(source, tag, comm);
  if (!stashed) {
    int result = real.Improbe(source, tag, comm, flag, message, status);
    if (result != MPI_SUCCESS || !*flag || status->MPI_SOURCE == MPI_PROC_NULL) return result;
    if (byte_count(*status) != static_cast<MPI_Count>(p2p::descriptor_bytes)) {
      note_handle(*message, comm);
      return result;
    }
    stashed = look_into(*message, *status, comm);
  }
  *flag = 1;
  *status = stashed->status;
  if (stashed->looked_into()) return make_handle(std::move(stashed), message);
  *message = stashed->message;
  note_handle(*message, comm);
  return MPI_SUCCESS;
}

// Polls: a blocking probe of the host MPI could not be left to make progress.
template <class Try>
int poll(Try try_once) {
  for (Backoff backoff;; backoff.pause()) {
    int found = 0;
    int result = try_once(&found);
    if (found || result != MPI_SUCCESS) return result;
  }
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status)) {
  CallRecord record(Function::Probe);
  if (!watching()) return real.Probe(source, tag, comm, status);
  return poll([&](int* found) { return iprobe(source, tag, comm, found, status); });
}

FAIRLEAD_MPI(Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status)) {
  CallRecord record(Function::Iprobe);
  if (!watching()) return real.Iprobe(source, tag, comm, flag, status);
  return iprobe(source, tag, comm, flag, status);
}

FAIRLEAD_MPI(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status)) {
  CallRecord record(Function::Mprobe);
  if (!watching()) return real.Mprobe(source, tag, comm, message, status);
  return poll([&](int* found) { return improbe(source, tag, comm, found, message, status); });
}

FAIRLEAD_MPI(Improbe,
             (int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status)) {
  CallRecord record(Function::Improbe);
  if (!watching()) return real.Improbe(source, tag, comm, flag, message, status);
  return improbe(source, tag, comm, flag, message, status);
}
