// SPDX-License-Identifier: Apache-2.0
//
// Are the arguments of a call right? The host MPI says so for every call that it is shown. For a call that
// Fairlead carries out itself these functions ask it: by a call with the same arguments that moves nothing,
// on a communicator of Fairlead's own, whose errors nobody but the caller sees. A call whose arguments are
// wrong is then shown to the host MPI as it is, or its class of error is raised.

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include <algorithm>

#include "mpi/datatype/first_bytes.h"

namespace fairlead::mpi {

// Will the host MPI refuse this, whatever the memory? Tells what costs nothing to see.
inline bool is_invalid(MPI_Count count, MPI_Datatype datatype) {
  return count < 0 || datatype == MPI_DATATYPE_NULL;
}
// The same for a buffer: null, which may be MPI_BOTTOM, is one where the type has absolute addresses.
bool begins_at_null(MPI_Datatype datatype);
inline bool is_invalid(const void* address, MPI_Count count, MPI_Datatype datatype) {
  return is_invalid(count, datatype) || (!address && count > 0 && begins_at_null(datatype));
}

// The class of error that the host MPI has for elements of a message, or MPI_SUCCESS. Types that are not
// predefined must have been committed, which the host MPI is asked about once.
int error_of_elements(MPI_Count count, MPI_Datatype datatype);
inline bool is_refused(MPI_Count count, MPI_Datatype datatype) {
  return error_of_elements(count, datatype) != MPI_SUCCESS;
}
// The same for elements that are reduced.
int error_of_reduction(MPI_Count count, MPI_Datatype datatype, MPI_Op op);

// Is any of these, which the host MPI refuses, null?
template <class... Pointers>
bool any_null(const Pointers*... pointers) {
  return (... || !pointers);
}
// A null status is one where the host MPI's MPI_STATUS_IGNORE is another address.
inline bool is_no_status(const MPI_Status* status) {
  return !status && MPI_STATUS_IGNORE != nullptr;
}
// Does the host MPI refuse an array of requests, and where their statuses and results go?
template <class... Results>
bool is_invalid(int count, const MPI_Request* requests, const MPI_Status* statuses,
                const Results*... results) {
  return count < 0 || (count > 0 && (!requests || is_no_status(statuses))) || any_null(results...);
}

}  // namespace fairlead::mpi
