// SPDX-License-Identifier: Apache-2.0
//
// The plan of a datatype (src/datatype/plan.h), made from what MPI tells of it when it is first used, and
// kept as an attribute of it. Messages on their way keep the plan: the program may free the type meanwhile.
// What else is learnt on the way is kept there, too.

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include "datatype/plan.h"

namespace fairlead::mpi {

using PlanOfType = std::shared_ptr<const datatype::Plan>;

// Null where the layout is known to the host MPI alone, and for types without bytes.
PlanOfType plan_of(MPI_Datatype datatype);
// The length that all basic elements of it have, where a pair is one; 0 where lengths differ, or are not
// known.
MPI_Count basic_bytes_of(MPI_Datatype datatype);

// May it be used in messages? `ask` finds out, and is asked until it has said yes once: nothing takes that
// back as long as the type lives.
bool is_committed(MPI_Datatype datatype, bool (*ask)(MPI_Datatype datatype));

// In MPI_Init and MPI_Finalize.
void open_datatypes();
void close_datatypes();

}  // namespace fairlead::mpi
