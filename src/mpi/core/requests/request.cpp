// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/requests/request.h"

#include "mpi/abi/comm_self.h"
#include "mpi/core/communicator.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/forwarded_receives.h"
#include "mpi/core/interception.h"
#include "mpi/core/progress_thread.h"

namespace fairlead::mpi {
namespace {

// The host MPI queries the status of a generalised request. Fairlead fills statuses itself, so this one is
// empty.
int query(void*, MPI_Status* status) {
  set_empty(status);
  return MPI_SUCCESS;
}
int forget(void*) {
  return MPI_SUCCESS;
}
int cancel(void*, int) {
  return MPI_SUCCESS;
}

}  // namespace

void set_empty(MPI_Status* status) {
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  status->MPI_ERROR = MPI_SUCCESS;
  PMPI_Status_set_cancelled(status, 0);
  set_byte_count(status, 0);
}

int run(Operation& operation, MPI_Status* status) {
  watch_forwarded();
  if (int result = operation.start(); result != MPI_SUCCESS) return result;
  engine().add(&operation);
  engine().wait(operation);
  engine().remove(&operation);
  MPI_Status ignored;
  return operation.finish(status == MPI_STATUS_IGNORE ? &ignored : status);
}

int hand_out(std::unique_ptr<Operation> operation, MPI_Request* request) {
  if (!request) return raise_error(comm_of_no_object(), MPI_ERR_ARG, "the address of a request");
  watch_forwarded();
  if (int result = operation->start(); result != MPI_SUCCESS) return result;
  if (MPI_Request own = operation->own_handle(); own != MPI_REQUEST_NULL) {
    operation->handle = own;
  } else if (int result = PMPI_Grequest_start(query, forget, cancel, nullptr, &operation->handle);
             result != MPI_SUCCESS) {
    // The host MPI and other ranks use what has started: it continues without the user.
    engine().add(operation.get());
    engine().defer_free(std::move(operation));
    return result;
  }
  bool moves_device_memory = operation->own_handle() == MPI_REQUEST_NULL;
  const bool worth_a_round = operation->worth_a_round();
  Operation* started = operation.release();
  *request = started->handle;
  engine().bind(started->handle, started);
  engine().add(started);
  help(*started, moves_device_memory, worth_a_round);
  return MPI_SUCCESS;
}

int start_detached(std::unique_ptr<Operation> operation, Operation** started) {
  watch_forwarded();
  if (int result = operation->start(); result != MPI_SUCCESS) return result;
  *started = operation.release();
  return MPI_SUCCESS;
}

int end_detached(Operation* operation, MPI_Status* status) {
  engine().remove(operation);
  const int result = operation->finish(status);
  delete operation;
  return result;
}

static void make_round(Operation& operation, bool in_device, bool worth_it) {
  const uint64_t bytes = operation.bytes();
  ProgressThread& thread = progress_thread();
  const bool helped = thread.helps_messages();
  const bool in_one_node = !helped || !engine().spans_nodes();
  const bool is_long =
      bytes >= (in_one_node ? ProgressThread::long_in_node : ProgressThread::long_between_nodes);
  const auto needs_help = [&] {
    std::lock_guard lock(engine().mutex());
    return operation.needs_help();
  };
  const bool by_thread = is_long && helped && needs_help();
  if (by_thread) {
    operation.is_long = true;
    thread.begin_long();
  }
  const bool looked = (is_long || worth_it || in_device) && engine().progress_at_start(is_long || worth_it);
  if (!by_thread) return;
  std::lock_guard lock(engine().mutex());
  // What came before the thread was to hear of it rings no more.
  const bool rings_tell = looked && operation.awaits() && !engine().spans_nodes();
  if (!operation.complete()) thread.wake_for(rings_tell ? 0 : bytes);
}

void help(Operation& operation, bool in_device, bool worth_a_round) {
  make_round(operation, in_device, worth_a_round);
  engine().note_start();
}

int make_token(MPI_Request* token) {
  return real.Send_init(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm_self(), token);
}

void hand_out_persistent(std::unique_ptr<Operation> operation, MPI_Request handle, MPI_Request* request) {
  operation->persistent = true;
  operation->active = false;
  operation->handle = handle;
  operation->keep_communicator();
  engine().bind(handle, operation.get());
  // Busy for as long as the request exists, so that calls that start and complete it reach Fairlead.
  engine().keep_busy(1);
  (void)operation.release();
  *request = handle;
}

int finish(Operation* operation, MPI_Request* request, MPI_Status* status) {
  if (const int pending = operation->take_interruption(); pending != MPI_SUCCESS) return pending;
  engine().remove(operation);
  MPI_Status ignored;
  if (status == MPI_STATUS_IGNORE) status = &ignored;
  if (operation->persistent) {
    operation->active = false;
    operation->give_buffers_back();
    return operation->finish(status);
  }
  // Must precede the host MPI's free of the handle: the host MPI may give it to another thread at once.
  engine().unbind(operation->handle);
  bool message = operation->own_handle() != MPI_REQUEST_NULL;
  MPI_Request handle = operation->handle;
  int result = operation->finish(status);
  if (!message) {
    PMPI_Grequest_complete(handle);
    real.Wait(&handle, MPI_STATUS_IGNORE);
  }
  delete operation;
  *request = MPI_REQUEST_NULL;
  return result;
}

void release(Operation* operation, MPI_Request* request) {
  operation->give_buffers_back();  // the program may learn of the end from others
  bool message = operation->own_handle() != MPI_REQUEST_NULL;
  engine().unbind(operation->handle);
  if (operation->persistent) engine().keep_busy(-1);
  if (!message) {
    if (!operation->persistent) PMPI_Grequest_complete(operation->handle);
    real.Request_free(&operation->handle);
  }
  *request = MPI_REQUEST_NULL;
  if (operation->active)
    engine().defer_free(std::unique_ptr<Operation>(operation));
  else
    delete operation;
}

}  // namespace fairlead::mpi
