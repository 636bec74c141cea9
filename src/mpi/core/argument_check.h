// SPDX-License-Identifier: Apache-2.0
//
// Checks of a call's arguments. The host MPI checks every call that Fairlead forwards. For a call that
// Fairlead carries out itself, these functions have the host MPI check the arguments: they make a call with
// the same arguments that moves no data, on a private communicator of Fairlead, so that only the caller of
// these functions sees an error. If the arguments are wrong, that caller forwards the original call to the
// host MPI unchanged, or raises the returned error class.

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include <algorithm>

#include "mpi/datatype/first_bytes.h"

namespace fairlead::mpi {

// Will the host MPI refuse these arguments, whatever the memory? Tests only what is cheap to test.
inline bool is_invalid(MPI_Count count, MPI_Datatype datatype) {
  return count < 0 || datatype == MPI_DATATYPE_NULL;
}
// The same for a buffer. A null address, which may be MPI_BOTTOM, is valid if the type has absolute
// addresses.
bool begins_at_null(MPI_Datatype datatype);
inline bool is_invalid(const void* address, MPI_Count count, MPI_Datatype datatype) {
  return is_invalid(count, datatype) || (!address && count > 0 && begins_at_null(datatype));
}

// Returns the error class that the host MPI reports for elements of a message, or MPI_SUCCESS. A type that is
// not predefined must be committed; the host MPI is called for that until it has accepted the type once.
int error_of_elements(MPI_Count count, MPI_Datatype datatype);
inline bool is_refused(MPI_Count count, MPI_Datatype datatype) {
  return error_of_elements(count, datatype) != MPI_SUCCESS;
}
// The same for elements of a reduction.
int error_of_reduction(MPI_Count count, MPI_Datatype datatype, MPI_Op op);
// The same for a collective whose two buffers are one, for all ranks or (MPI_Reduce) at the root: MPICH
// refuses all of them, Open MPI the latter.
int error_of_aliasing(bool at_root);

// Is any of these pointers null? The host MPI refuses null for them.
template <class... Pointers>
bool any_null(const Pointers*... pointers) {
  return (... || !pointers);
}
// Is this status null although the host MPI's MPI_STATUS_IGNORE is another address?
inline bool is_no_status(const MPI_Status* status) {
  return !status && MPI_STATUS_IGNORE != nullptr;
}
// Does the host MPI refuse an array of requests, or the pointers to their statuses and results?
template <class... Results>
bool is_invalid(int count, const MPI_Request* requests, const MPI_Status* statuses,
                const Results*... results) {
  return count < 0 || (count > 0 && (!requests || is_no_status(statuses))) || any_null(results...);
}

}  // namespace fairlead::mpi
