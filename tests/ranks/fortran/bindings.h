! SPDX-License-Identifier: Apache-2.0
!
! What differs between the three bindings, so that one text is compiled for each. WITH_MPI_F08, WITH_MPI or
! WITH_MPIF_H chooses. IERR ends an argument list: mpi_f08 lets it away, which must work, too.

#if defined(WITH_MPI_F08)
#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#define IERR
#define A_COMM type(MPI_Comm)
#define A_DATATYPE type(MPI_Datatype)
#define AN_ERRHANDLER type(MPI_Errhandler)
#define A_MESSAGE type(MPI_Message)
#define AN_OP type(MPI_Op)
#define A_REQUEST type(MPI_Request)
#define A_WIN type(MPI_Win)
#define AN_INFO type(MPI_Info)
#define A_STATUS type(MPI_Status)::status
#define STATUSES(n) type(MPI_Status)::statuses(n)
#define FIELD(name) status % name
#define FIELD_OF(i, name) statuses(i) % name
#else
#if defined(WITH_MPI)
#define USE_MPI use mpi
#define INCLUDE_MPI
#else
#define USE_MPI
#define INCLUDE_MPI include 'mpif.h'
#endif
#define IERR , ierror
#define A_COMM integer
#define A_DATATYPE integer
#define AN_ERRHANDLER integer
#define A_MESSAGE integer
#define AN_OP integer
#define A_REQUEST integer
#define A_WIN integer
#define AN_INFO integer
#define A_STATUS integer ::status(MPI_STATUS_SIZE)
#define STATUSES(n) integer ::statuses(MPI_STATUS_SIZE, n)
#define FIELD(name) status(name)
#define FIELD_OF(i, name) statuses(name, i)
#endif
