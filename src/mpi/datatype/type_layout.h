// SPDX-License-Identifier: Apache-2.0
//
// The plan of a datatype (src/packing/plan.h), built from MPI's description of the type at its first use,
// and stored as an attribute of the type. Messages in flight keep the plan alive, because the program may
// free the type meanwhile. The attribute also stores what else is found out about the type.

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include "packing/plan.h"

namespace fairlead::mpi {

using PlanOfType = std::shared_ptr<const packing::Plan>;

// Returns null if only the host MPI has the layout, and for types without bytes.
PlanOfType plan_of(MPI_Datatype datatype);
// The same bytes in the order of the external form, external32; null if that is more than another order, or
// would be a long list of bytes.
PlanOfType external_plan_of(MPI_Datatype datatype);
// Returns the length that all basic elements of the type have, where a pair is one element; 0 if lengths
// differ or are unknown.
MPI_Count basic_bytes_of(MPI_Datatype datatype);

// May the type be used in messages? Calls `ask` to find out, until it has returned true once: a committed
// type stays committed for as long as it lives.
bool is_committed(MPI_Datatype datatype, bool (*ask)(MPI_Datatype datatype));

// Called in MPI_Init and MPI_Finalize.
void open_datatypes();
void close_datatypes();

}  // namespace fairlead::mpi
