// SPDX-License-Identifier: Apache-2.0
//
// MPI_Request_get_status, and its forms any, some and all. They inspect requests of Fairlead and of the host
// MPI in one array and make progress, but complete and free nothing. MPI 4.1 introduced the last three; here
// they are built on the first, so that they work with every host MPI.

#include "mpi/abi/comm_self.h"
#include "mpi/core/communicator.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"

namespace fairlead::mpi {
namespace {

enum class State { inactive, pending, complete };

State state_of(Operation& operation, MPI_Status* status) {
  if (!operation.active) {
    set_empty(status);
    return State::inactive;
  }
  operation.start_waiting();
  if (!operation.complete()) return State::pending;
  operation.describe(status);
  operation.give_buffers_back();
  return State::complete;
}

// Finds the state of a host request. A null request is inactive. MPI_Request_get_status sets the flag for
// inactive and complete requests alike. If the host MPI has the functions of MPI 4.1, those distinguish the
// two. Otherwise the status does: that of an inactive request is empty, with a source and tag that no message
// has. (Some MPIs write no status for a send.)
int state_of_host(MPI_Request request, State* state, MPI_Status* status) {
  static const bool host_can_tell = available(Function::Request_get_status_any);
  int done = 0, index = 0;
  if (host_can_tell) {
    int result = real.Request_get_status_any(1, &request, &index, &done, status);
    *state = !done ? State::pending : index == MPI_UNDEFINED ? State::inactive : State::complete;
    return result;
  }
  status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
  int result = real.Request_get_status(request, &done, status);
  bool empty = status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG;
  *state = !done ? State::pending : empty ? State::inactive : State::complete;
  return result;
}

int look(MPI_Request request, State* state, MPI_Status* status) {
  Operation* operation = engine().find(request);
  if (!operation) return state_of_host(request, state, status);
  *state = state_of(*operation, status);
  return MPI_SUCCESS;
}

// True if the host MPI has the function and can answer alone, or refuses the arguments.
template <class... Results>
bool forwards(Function function, int count, const MPI_Request* requests, const MPI_Status* statuses,
              const Results*... results) {
  if (!intercepting()) return true;
  return available(function) && (!engine().busy() || is_invalid(count, requests, statuses, results...));
}

// Checks the arguments if the host MPI lacks the function.
template <class... Results>
int check(int count, const MPI_Request* requests, const MPI_Status* statuses, const Results*... results) {
  if (!is_invalid(count, requests, statuses, results...)) return MPI_SUCCESS;
  return raise_error(comm_self(), count < 0 ? MPI_ERR_COUNT : MPI_ERR_ARG, "a question about requests");
}

void progress() {
  if (engine().busy()) engine().progress();
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Request_get_status, (MPI_Request request, int* flag, MPI_Status* status)) {
  CallRecord record(Function::Request_get_status, a_completion(CallKind::polling, &request));
  if (!intercepting() || !engine().busy() || !flag || is_no_status(status))
    return real.Request_get_status(request, flag, status);
  engine().progress();
  Operation* operation = engine().find(request);
  if (!operation) return real.Request_get_status(request, flag, status);
  MPI_Status ignored;
  *flag = state_of(*operation, status == MPI_STATUS_IGNORE ? &ignored : status) != State::pending;
  return MPI_SUCCESS;
}

FAIRLEAD_MPI(Request_get_status_all,
             (int count, const MPI_Request requests[], int* flag, MPI_Status statuses[])) {
  CallRecord record(Function::Request_get_status_all);
  if (forwards(Function::Request_get_status_all, count, requests, statuses, flag))
    return real.Request_get_status_all(count, requests, flag, statuses);
  if (int error = check(count, requests, statuses, flag); error != MPI_SUCCESS) return error;
  progress();
  *flag = 1;
  for (int i = 0; i < count; ++i) {
    State state;
    MPI_Status ignored;
    MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? &ignored : &statuses[i];
    if (int result = look(requests[i], &state, status); result != MPI_SUCCESS) return result;
    if (state == State::pending) *flag = 0;
  }
  return MPI_SUCCESS;
}

FAIRLEAD_MPI(Request_get_status_any,
             (int count, const MPI_Request requests[], int* index, int* flag, MPI_Status* status)) {
  CallRecord record(Function::Request_get_status_any);
  if (forwards(Function::Request_get_status_any, count, requests, status, index, flag))
    return real.Request_get_status_any(count, requests, index, flag, status);
  if (int error = check(count, requests, status, index, flag); error != MPI_SUCCESS) return error;
  progress();
  MPI_Status ignored;
  if (status == MPI_STATUS_IGNORE) status = &ignored;
  *index = MPI_UNDEFINED;
  bool active = false;
  for (int i = 0; i < count; ++i) {
    State state;
    if (int result = look(requests[i], &state, status); result != MPI_SUCCESS) return result;
    active |= state != State::inactive;
    if (state != State::complete) continue;
    *index = i;
    *flag = 1;
    return MPI_SUCCESS;
  }
  *flag = !active;
  if (!active) set_empty(status);
  return MPI_SUCCESS;
}

FAIRLEAD_MPI(Request_get_status_some,
             (int count, const MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[])) {
  CallRecord record(Function::Request_get_status_some);
  if (forwards(Function::Request_get_status_some, count, requests, statuses, outcount))
    return real.Request_get_status_some(count, requests, outcount, indices, statuses);
  if (int error = check(count, requests, statuses, outcount); error != MPI_SUCCESS) return error;
  progress();
  int complete = 0;
  bool active = false;
  for (int i = 0; i < count; ++i) {
    State state;
    MPI_Status found;
    found.MPI_ERROR = MPI_SUCCESS;
    if (int result = look(requests[i], &state, &found); result != MPI_SUCCESS) return result;
    active |= state != State::inactive;
    if (state != State::complete) continue;
    if (statuses != MPI_STATUSES_IGNORE) statuses[complete] = found;
    indices[complete++] = i;
  }
  *outcount = active ? complete : MPI_UNDEFINED;
  return MPI_SUCCESS;
}
