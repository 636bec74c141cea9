// SPDX-License-Identifier: Apache-2.0
//
// MPI_Probe, MPI_Iprobe, MPI_Mprobe and MPI_Improbe. They report the user's message, never an RTS header
// (M2).

#include "base/rate_limit.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/forwarded_receives.h"
#include "mpi/core/interception.h"
#include "mpi/core/operation.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/failures/failures.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/probed_messages.h"

namespace fairlead::mpi {
namespace {

int iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  MPI_Status local;
  if (status == MPI_STATUS_IGNORE) status = &local;
  watch_forwarded();
  if (engine().busy()) {
    engine().progress();
    if (peek_probed(source, tag, comm, status)) {
      *flag = 1;
      return MPI_SUCCESS;
    }
  }
  int result = real.Iprobe(source, tag, comm, flag, status);
  if (result != MPI_SUCCESS || !*flag || status->MPI_SOURCE == MPI_PROC_NULL) return result;
  if (queue_if_unclear(*status, comm)) *flag = peek_probed(source, tag, comm, status);
  return MPI_SUCCESS;
}

int improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  MPI_Status local;
  if (status == MPI_STATUS_IGNORE) status = &local;
  std::unique_ptr<ProbedMessage> probed;
  note_uncounted_receive(MPI_ANY_SOURCE, MPI_ANY_TAG, comm);
  watch_forwarded();
  if (engine().busy()) engine().progress();
  ProbeQueueLock together;
  if (engine().busy()) probed = take_probed(source, tag, comm);
  if (!probed) {
    int result = real.Improbe(source, tag, comm, flag, message, status);
    if (result != MPI_SUCCESS || !*flag || status->MPI_SOURCE == MPI_PROC_NULL) return result;
    if (byte_count(*status) != static_cast<MPI_Count>(p2p::rts_bytes)) {
      note_handle(*message, comm);
      return result;
    }
    probed = look_into(*message, *status, comm);
  }
  *flag = 1;
  *status = probed->status;
  if (probed->looked_into()) return make_handle(std::move(probed), message);
  *message = probed->message;
  note_handle(*message, comm);
  return MPI_SUCCESS;
}

// Polls, because this thread cannot make progress during a blocking probe of the host MPI. It tries once more
// after it has learned of a failure: the process may have sent the message before.
template <class Try>
int poll(int source, MPI_Comm comm, Try try_once) {
  RateLimit looks_for_failures(std::chrono::milliseconds(10));
  const bool may_fail =
      survives_failures() && looks_for_failures.due();  // the first look comes after a pause
  int failure = MPI_SUCCESS;
  for (Backoff backoff;; backoff.pause()) {
    int found = 0;
    int result = try_once(&found);
    if (found || result != MPI_SUCCESS) return result;
    if (failure != MPI_SUCCESS) return raise_error(comm, failure, "a probe");
    if (!may_fail || !looks_for_failures.due()) continue;
    failure = Failures().of_peer(comm, source);
    if (failure == proc_failed_pending) failure = proc_failed;  // no request stays
  }
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status)) {
  CallRecord record(Function::Probe, a_probe(CallKind::message, source, tag, comm));
  if (!intercepting()) return real.Probe(source, tag, comm, status);
  return poll(source, comm, [&](int* found) { return iprobe(source, tag, comm, found, status); });
}

FAIRLEAD_MPI(Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status)) {
  CallRecord record(Function::Iprobe, a_probe(CallKind::polling, source, tag, comm));
  if (!intercepting()) return real.Iprobe(source, tag, comm, flag, status);
  return iprobe(source, tag, comm, flag, status);
}

FAIRLEAD_MPI(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status)) {
  CallRecord record(Function::Mprobe, a_probe(CallKind::message, source, tag, comm));
  if (!intercepting()) return real.Mprobe(source, tag, comm, message, status);
  return poll(source, comm, [&](int* found) { return improbe(source, tag, comm, found, message, status); });
}

FAIRLEAD_MPI(Improbe,
             (int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status)) {
  CallRecord record(Function::Improbe, a_probe(CallKind::polling, source, tag, comm));
  if (!intercepting()) return real.Improbe(source, tag, comm, flag, message, status);
  return improbe(source, tag, comm, flag, message, status);
}
