// SPDX-License-Identifier: Apache-2.0

#include "mpi/record.h"

namespace fairlead::mpi {

void CallRecord::add(MPI_Count count, MPI_Datatype datatype) {
  observe::OpenCall* call = observe::current_call();
  // What is not significant on this rank may be anything.
  if (!call || count <= 0 || datatype == MPI_DATATYPE_NULL) return;
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  if (size > 0) call->bytes += static_cast<uint64_t>(count * size);
}

void CallRecord::add_received(const MPI_Status& status) const {
  MPI_Count bytes = 0;
  PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  add(bytes, MPI_BYTE);
}

void MessageRecord::start() {
  const observe::OpenCall* call = observe::current_call();
  function_ = call ? call->function : -1;
  since_ = observe::now();
  way_ = Traffic::rows;
}

void MessageRecord::finish() {
  if (way_ != Traffic::rows) observe::add({function_, way_}, bytes_, observe::now() - since_);
  function_ = -1;
}

}  // namespace fairlead::mpi
