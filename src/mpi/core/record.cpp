// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/record.h"

#include "mpi/core/communicator.h"
#include "mpi/core/interception.h"

namespace fairlead::mpi {

constinit thread_local Function current_function{};
constinit thread_local const char* current_extension = nullptr;

void CallRecord::add(MPI_Count count, MPI_Datatype datatype) {
  observe::OpenCall* call = observe::current_call();
  // Arguments that are not significant on this rank may have any value.
  if (!call || count <= 0 || datatype == MPI_DATATYPE_NULL) return;
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  if (size > 0) call->bytes += static_cast<uint64_t>(count * size);
}

namespace {

int rank_of_this_process() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace

void CallRecord::add_received(const MPI_Status& status, MPI_Comm comm) const {
  MPI_Count bytes = 0;
  PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  add(bytes, MPI_BYTE);
  // A receive that became an operation has ended the flow event itself.
  if (intercepting() && observe::tracing() && comm != MPI_COMM_NULL && !observe::current_call()->received)
    end_flow(rank_in_world(comm, status.MPI_SOURCE), status.MPI_TAG, bytes);
}

void begin_flow(MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  if (!intercepting() || !observe::tracing() || is_invalid(count, datatype)) return;
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  int to = rank_in_world(comm, dest);
  if (to >= 0 && count > 0 && size > 0)
    observe::trace_sent(
        observe::flow_of(rank_of_this_process(), to, tag, static_cast<uint64_t>(count * size)));
}

void end_flow(int from, int tag, MPI_Count bytes) {
  if (from >= 0 && bytes > 0)
    observe::trace_received(
        observe::flow_of(from, rank_of_this_process(), tag, static_cast<uint64_t>(bytes)));
}

void MessageRecord::start() {
  const observe::OpenCall* call = observe::current_call();
  function_ = call ? call->function : -1;
  since_ = observe::now();
  path_ = Traffic::rows;
}

void MessageRecord::finish() {
  if (path_ != Traffic::rows) observe::add({function_, path_}, bytes_, observe::now() - since_);
  function_ = -1;
}

}  // namespace fairlead::mpi
