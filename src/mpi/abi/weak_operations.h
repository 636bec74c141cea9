// SPDX-License-Identifier: Apache-2.0
//
// The operations of Open MPI that few sources name, weak like those in host_mpi.h.

#pragma once

#include "mpi/abi/host_mpi.h"

#if defined(OPEN_MPI)
#pragma weak ompi_mpi_op_band
#pragma weak ompi_mpi_op_bor
#pragma weak ompi_mpi_op_bxor
#pragma weak ompi_mpi_op_land
#pragma weak ompi_mpi_op_lor
#pragma weak ompi_mpi_op_lxor
#pragma weak ompi_mpi_op_maxloc
#pragma weak ompi_mpi_op_minloc
#pragma weak ompi_mpi_op_prod
#endif
