// SPDX-License-Identifier: Apache-2.0
//
// A program that imports a function of streams, as those do that are compiled with MPICH's header, and whose
// sources keep the thread level that it asks for. `imports_streams.c` has the import.

#define FAIRLEAD_STREAM_KEEP_THREAD_LEVEL
#include <fairlead/stream.h>
#include <mpi.h>
#include <stdio.h>

int stream_functions_are_imported(void);

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE, told = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Query_thread(&told);
  const int imported = stream_functions_are_imported();
  if (!imported) fprintf(stderr, "stream keeper: MPIX_Stream_comm_create is not found\n");
  if (level != MPI_THREAD_FUNNELED || told != level)
    fprintf(stderr, "stream keeper: level %d, told %d\n", level, told);
  MPI_Finalize();
  return imported && level == MPI_THREAD_FUNNELED && told == level ? 0 : 1;
}
